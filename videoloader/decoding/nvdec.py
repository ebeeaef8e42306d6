"""Decode runs of packets with NVDEC, through PyNvVideoCodec, in sessions that all threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import torch

from videoloader.convert.surface import CudaSurface, NvdecFormat, SurfaceLayout, nvdec_layout
from videoloader.decoding.annexb import add_annex_b, annex_b_headers
from videoloader.decoding.capabilities import section_format, setup_of, why_not_picture
from videoloader.decoding.nvdec_codecs import NVDEC_CODECS
from videoloader.decoding.picture_changes import contradiction
from videoloader.decoding.sessions import Session, SessionError, packets_a_call, pool_of, session_key
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.parameter_sets import WITH_PARAMETER_SETS
from videoloader.indexing.bitstream.picture import parameter_set_format
from videoloader.indexing.bitstream.picture_kinds import refers_back
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import PacketBytes
from videoloader.runtime.quiet_time import wait_for_quiet_time

# Maximum packets in a call for pictures that count as large.
_LARGE_A_CALL = 4
# Time from one place in display order to the next. NVDEC's parser gives a call's time to its first picture, and to each
# further picture the time of the one shown before it plus some more (33 at 30 frames/s).
_RANK = 1 << 12
# PyNvVideoCodec takes 31-bit times.
_LATEST = (1 << 31) // _RANK - 2
_NEVER = 1 << 62

TakeSurface = Callable[[int, CudaSurface, torch.cuda.Stream], None]
# Surfaces are valid until this is called.
Finish = Callable[[], None]


class NvdecDecoder:
    """A decoder that borrows NVDEC sessions of the process. Threads may share it.

    Each packet is copied once, into the bytes of a call. The Python part, without the sink, takes 2.7 µs for a packet
    of two slices (one core of a server).

    Args:
        gpu: CUDA device number.
    """

    def __init__(self, *, gpu: int) -> None:
        self._gpu = gpu

    def decode(
        self,
        index: VideoIndex,
        read: Callable[[], Iterable[PacketBytes]],
        sink: TakeSurface,
        finish: Finish = lambda: None,
    ) -> int:
        """Decode one run, from a keyframe on, until all wanted frames have come out.

        If a session fails, the run is read again and decoded once more in a new session. The sink is then called again
        for the frames that it already got, which cannot be trusted.

        Args:
            index: index of the video.
            read: function that returns the run's packets in decode order, with their places.
            sink: function called as ``sink(packet number, surface, stream)`` for each wanted packet, in display order.
                The surface is valid for work put on that stream until ``finish`` has been called.
            finish: function called after every few pictures, so that work on all of them can be put on the stream at
                once.

        Returns:
            The number of packets fed to the decoder.

        Raises:
            DecodeError: NVDEC refuses the stream, outputs pictures of another size than the stream's, or does not
                output one picture for each packet. Frames given to the sink before that may be wrong.
        """
        try:
            try:
                return self._decode(index, iter(read()), sink, finish, new=False)
            except SessionError as error:
                if error.short_of_resources:
                    pool_of(self._gpu).close_idle()
            return self._decode(index, iter(read()), sink, finish, new=True)
        except DecodeError as error:
            if error.source is not None:  # the error is about the packets
                raise
            raise DecodeError(error.message, index.source) from error.__cause__

    def _decode(
        self, index: VideoIndex, packets: Iterator[PacketBytes], sink: TakeSurface, finish: Finish, *, new: bool
    ) -> int:
        packet = next(packets, None)
        if packet is not None:
            _check_start(index, packet)
        fed = 0
        while packet is not None:
            picture = self._picture(index, packet)
            with pool_of(self._gpu).lend(session_key(index.stream.codec, picture), picture, new=new) as session:
                sequence = _Sequence(index, session, picture, sink, finish)
                packet = sequence.decode(packet, packets, leaves_out=not new)
            fed += sequence.fed
        return fed

    def _picture(self, index: VideoIndex, packet: PacketBytes) -> PictureFormat:
        """Return the format of the pictures from a packet on."""
        stream, config = index.stream, int(index.packet_config[packet.number])
        picture = section_format(stream, config)
        if stream.codec in WITH_PARAMETER_SETS:
            length_size = nal_length_size(stream.codec, stream.codec_configs[config])
            if parameter_sets := add_annex_b([], packet.data, stream.codec, length_size):
                picture = _announced(stream.codec, parameter_sets)
            if picture is None or picture.coded_size == (0, 0):
                raise DecodeError("there is no sequence parameter set before its first picture")
        assert picture is not None, "why_not_nvdec says which streams may come here"
        if (picture.width, picture.height) != (stream.width, stream.height):
            raise DecodeError(f"packet {packet.number} has pictures of {picture.width}×{picture.height}")
        if reason := why_not_picture(stream.codec, picture, self._gpu):
            raise DecodeError(reason)
        return picture


def _check_start(index: VideoIndex, packet: PacketBytes) -> None:
    """Refuse to start at a packet that is no keyframe, since each decoder makes up missing pictures in its own way."""
    codec = index.stream.codec
    config = index.config_at(packet.number)
    if index.packet_key[packet.number] or is_random_access(codec, config, packet.data):
        return
    if codec != "h264" or refers_back(config, packet.data):
        raise DecodeError(f"packet {packet.number}, where decoding starts, is not a keyframe")


def _announced(codec: str, parameter_sets: list[bytes]) -> PictureFormat:
    formats = [parameter_set_format(codec, each) for each in parameter_sets]
    if formats[0] is None or any(each is None or setup_of(each) != setup_of(formats[0]) for each in formats):
        raise DecodeError("a packet's sequence parameter sets cannot be read, or contradict each other")
    return formats[0]


class _Sequence:
    """Decodes packets in one session: packets go in, pictures come out in display order.

    Each picture belongs to the earliest-shown packet that was fed and whose picture has not come out, as long as each
    packet becomes one picture. (NVDEC's own timestamps say no more: its parser hands them out in rising order.)

    Args:
        index: index of the video.
        session: session that is set up for the pictures.
        picture: format that all of the pictures have.
        sink, finish: see ``NvdecDecoder.decode``.

    Attributes:
        fed: number of packets that the session was given.
    """

    def __init__(
        self, index: VideoIndex, session: Session, picture: PictureFormat, sink: TakeSurface, finish: Finish
    ) -> None:
        self._index, self._session, self._picture = index, session, picture
        self._sink, self._finish = sink, finish
        self._codec, self._setup = index.stream.codec, setup_of(picture)
        self._layout, self._size = _layout(picture)
        self._with_sets = self._codec in WITH_PARAMETER_SETS
        self._config, self._configs, self._length_size = -1, index.packet_config.data, 0
        # Pictures of codecs that never reorder come out in the order of packets, some of which may show nothing.
        reorders = NVDEC_CODECS[self._codec].reorders
        self._ranks: Sequence[int] = index.packet_rank.data if reorders else range(len(index.packet_size))
        self._shown = None if reorders else index.packet_has_frame.data
        # Places in display order: a heap of those whose pictures have not come out; and those that are wanted, with
        # their packets' numbers.
        self._outstanding: list[int] = []
        self._expected: dict[int, int] = {}
        # The next call: its pieces of input, its number of packets and their maximum, and the latest of their places.
        self._pieces: list[bytes | memoryview] = []
        self._packets, self._latest = 0, -1
        self._most = packets_a_call(picture) if reorders else 1
        self._large = self._most <= _LARGE_A_CALL
        self._leaving = False
        self._seen_from = 0  # time of the first picture that is not left out
        self.fed = 0

    def decode(self, first: PacketBytes, packets: Iterable[PacketBytes], *, leaves_out: bool) -> PacketBytes | None:
        """Decode packets up to the end, or up to one that needs another session, which is returned.

        Args:
            first: the first of the packets.
            packets: packets after it.
            leaves_out: whether pictures that nobody wants may be left unconverted and uncopied, by their times. Copies
                take GPU time from the network: 3 % of a training from 1080p videos, 1.5 % without them (H200). Among
                small pictures, those before the first wanted one are left out; among large ones, also those in between.
        """
        # A run that begins with an unwanted picture usually has many of them.
        self._leaving = leaves_out and NVDEC_CODECS[self._codec].leaves_out and not first.wanted
        following: PacketBytes | None = None
        for packet in chain((first,), packets):
            if not self._add(packet):
                following = packet
                break
            if self._packets == self._most:
                self._feed()
        if self._packets:
            self._feed()
        # Always flush: it makes the session ready for the next video, and the last pictures come out only now.
        self._feed()
        if self._outstanding:
            raise SessionError(f"NVDEC gave {len(self._outstanding)} fewer pictures than it should")
        return following

    def _add(self, packet: PacketBytes) -> bool:
        """Add a packet to the next call; return False if it needs another session."""
        number, data, wanted, _, place, _ = packet
        if self._configs[number] != self._config and not self._add_headers(self._configs[number]):
            return False
        if place is None:
            place = self._ranks[number]
        if place < 0:
            raise DecodeError(f"the order of its pictures is unknown from packet {number} on")
        if self._leaving and (wanted or place > _LATEST):
            self._leave_less(place)
        if self._with_sets:
            before = len(self._pieces)
            parameter_sets = add_annex_b(self._pieces, data, self._codec, self._length_size)
            if parameter_sets and setup_of(_announced(self._codec, parameter_sets)) != self._setup:
                del self._pieces[before:]
                return False
        else:
            if reason := contradiction(self._codec, data, self._picture):
                raise DecodeError(f"packet {number} contradicts the stream: {reason}")
            self._pieces.append(data)
        if self._shown is None or self._shown[number]:
            heappush(self._outstanding, place)
        if wanted:
            self._expected[place] = number
        if place > self._latest:
            self._latest = place
        self._packets += 1
        return True

    def _add_headers(self, config: int) -> bool:
        """Add a configuration's parameter sets to the next call; return False if they need another session."""
        records = self._index.stream.codec_configs
        record, former = records[config], records[self._config] if self._config >= 0 else None
        if former is not None:
            picture = section_format(self._index.stream, config)
            if picture is None or setup_of(picture) != self._setup:
                return False
        self._config, self._length_size = config, nal_length_size(self._codec, record)
        if record != former:
            self._pieces.append(annex_b_headers(self._codec, record))
        return True

    def _leave_less(self, place: int) -> None:
        """Feed the packets before a wanted one, or before one too late for times; leave out less from there on."""
        if self._packets:
            self._feed()
        if self._large and place <= _LATEST:
            # From here on each picture has a time of its own, so that those between two wanted ones can be left out.
            self._most = 1
        else:
            self._leaving = False

    def _feed(self) -> None:
        """Feed the packets that were added, or flush if there are none, and pass on the pictures that come out."""
        time = self._seen_from = 0
        if self._leaving:
            # Use the latest picture of the call: no picture may get a time earlier than its rank, since it might get
            # that of a wanted one.
            time = _RANK * (1 + self._latest)
            self._seen_from = _RANK * (1 + min(self._expected)) if self._expected else _NEVER
        wait_for_quiet_time()
        payload = bytearray().join(self._pieces)
        self.fed += self._packets
        self._pieces, self._packets, self._latest = [], 0, -1
        self._give(self._session.feed(payload, time=time, seen_from=self._seen_from))

    def _give(self, surfaces: list[Any]) -> None:
        """Give the wanted ones among the next pictures to the sink."""
        try:
            for surface in surfaces:
                if not self._outstanding:
                    raise SessionError("NVDEC gave more pictures than packets show")
                number = self._expected.pop(heappop(self._outstanding), None)
                if number is None:
                    continue
                if surface.framesize() != self._size:
                    raise SessionError(
                        f"NVDEC gave a picture of {surface.framesize()} bytes where {self._picture.width}×"
                        f"{self._picture.height} {self._picture.chroma} {self._picture.bit_depth} bit has {self._size}"
                    )
                if surface.getPTS() < self._seen_from:
                    raise SessionError(f"NVDEC gave the picture of packet {number} the time of an earlier one")
                self._sink(number, CudaSurface(surface.GetPtrToPlane(0), self._layout, surface), self._session.stream)
        finally:
            self._finish()


def _layout(picture: PictureFormat) -> tuple[SurfaceLayout, int]:
    """Return the layout of a picture's samples, and its size in bytes as PyNvVideoCodec reports it.

    Planes are contiguous; rows of subsampled formats are as long as an even width.
    """
    wide, planar = picture.bit_depth > 8, picture.chroma == "444"
    pitch = (picture.width if planar else (picture.width + 1) // 2 * 2) * (2 if wide else 1)
    pixels: NvdecFormat = ("yuv444_16" if wide else "yuv444") if planar else ("p016" if wide else "nv12")
    # The reported size excludes the last chroma row of an odd height, but the row exists.
    size = pitch * picture.height * 3 if planar else pitch * picture.height * 3 // 2
    return nvdec_layout(picture.width, picture.height, pitch, pixels, picture.bit_depth), size
