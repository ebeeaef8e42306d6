"""Decoding on NVDEC through PyNvVideoCodec's low-level decoder, in sessions shared by all threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import torch

from videoloader.convert.surface import CudaSurface, NvdecFormat, SurfaceLayout, nvdec_layout
from videoloader.decoding.annexb import add_annex_b, annex_b_headers
from videoloader.decoding.capabilities import section_format, setup_of, why_not_picture
from videoloader.decoding.picture_changes import contradiction
from videoloader.decoding.sessions import Session, SessionError, packets_a_call, pool_of, session_key
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.picture import PictureFormat, parameter_set_format
from videoloader.indexing.bitstream.picture_kinds import refers_back
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import PacketBytes

_NEVER_REORDERED = ("vp8", "vp9", "av1")
_WITH_PARAMETER_SETS = ("h264", "hevc")
# Packets that a call has at most where pictures are large.
_LARGE_A_CALL = 4
# From the time of one place in display order to the next. NVDEC's parser gives a call's time to the first of its
# pictures, and to each of the others the time of the picture shown before it and some more: 33, at 30 frames/s.
_RANK = 1 << 12
# PyNvVideoCodec takes times of 31 bits.
_LATEST = (1 << 31) // _RANK - 2
_NEVER = 1 << 62

Sink = Callable[[int, CudaSurface, torch.cuda.Stream], None]
# Surfaces are valid until it is called.
Finish = Callable[[], None]


class NvdecDecoder:
    """A decoder that borrows NVDEC sessions of the process; threads may share it.

    Each packet is copied once, into the bytes of a call. Python's part, without the sink, is 2.7 µs for a packet of two
    slices (one core of a server).

    Args:
        gpu: CUDA device number.
    """

    def __init__(self, *, gpu: int) -> None:
        self._gpu = gpu

    def decode(
        self, index: VideoIndex, read: Callable[[], Iterable[PacketBytes]], sink: Sink, finish: Finish = lambda: None
    ) -> int:
        """Decode one run, from a keyframe on, until all wanted frames have come out.

        A run on which a session fails is read again and decoded once more on a new one. The sink is then called again
        for the frames it had; what it was given before is not to be trusted.

        Args:
            index: of the video.
            read: gives the run's packets in decode order, with their places.
            sink: called as ``sink(packet number, surface, stream)`` for each wanted packet, in display order. The
                surface is valid for work put on that stream until ``finish`` has been called.
            finish: called after each few pictures, so that work on all of them can be put on the stream at once.

        Returns:
            Packets fed to the decoder.

        Raises:
            DecodeError: NVDEC refuses the stream, gives out pictures of another size than the stream's, or
                not one for each packet. Frames given to the sink before that may be wrong.
        """
        try:
            try:
                return self._decode(index, iter(read()), sink, finish, new=False)
            except SessionError as error:
                if error.short_of_resources:
                    pool_of(self._gpu).close_idle()
            return self._decode(index, iter(read()), sink, finish, new=True)
        except DecodeError as error:
            if error.source is not None:  # of the packets
                raise
            raise DecodeError(error.message, index.source) from error.__cause__

    def _decode(
        self, index: VideoIndex, packets: Iterator[PacketBytes], sink: Sink, finish: Finish, *, new: bool
    ) -> int:
        packet = next(packets, None)
        if packet is not None:
            _check_start(index, packet)
        fed = 0
        while packet is not None:
            picture = self._picture(index, packet)
            with pool_of(self._gpu).lend(session_key(index.stream.codec, picture), picture, new=new) as session:
                count, packet = _decode_sequence(
                    index, session, picture, chain((packet,), packets), sink, finish, leaves_out=not new
                )
            fed += count
        return fed

    def _picture(self, index: VideoIndex, packet: PacketBytes) -> PictureFormat:
        """The format of the pictures from a packet on."""
        stream, config = index.stream, int(index.packet_config[packet.number])
        picture = section_format(stream, config)
        if stream.codec in _WITH_PARAMETER_SETS:
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
    """What is missing where decoding starts in the middle of things, each decoder makes up in its own way."""
    codec = index.stream.codec
    config = index.stream.codec_configs[index.packet_config[packet.number]]
    if index.packet_key[packet.number] or is_random_access(codec, config, packet.data):
        return
    if codec != "h264" or refers_back(config, packet.data):
        raise DecodeError(f"packet {packet.number}, where decoding starts, is no keyframe")


def _announced(codec: str, parameter_sets: list[bytes]) -> PictureFormat:
    formats = [parameter_set_format(codec, each) for each in parameter_sets]
    if formats[0] is None or any(each is None or setup_of(each) != setup_of(formats[0]) for each in formats):
        raise DecodeError("a packet's sequence parameter sets cannot be read, or contradict each other")
    return formats[0]


@dataclass(eq=False)
class _Call:
    """Packets that are fed together.

    Attributes:
        pieces: what they consist of.
        packets: how many they are.
        latest: the last of their places in display order.
    """

    pieces: list[bytes | memoryview] = field(default_factory=list)
    packets: int = 0
    latest: int = -1


def _decode_sequence(
    index: VideoIndex,
    session: Session,
    picture: PictureFormat,
    packets: Iterable[PacketBytes],
    sink: Sink,
    finish: Finish,
    *,
    leaves_out: bool,
) -> tuple[int, PacketBytes | None]:
    """Decode the packets up to the end, or up to one whose parameter sets need another session.

    Args:
        leaves_out: whether pictures that nobody looks at may be left unconverted and uncopied, by their times. Copies
            take from the GPU what a network could use: 3 % of a training from 1080p videos, 1.5 % without them (H200).
            Of small pictures those before the first wanted one are left out, of large ones those in between, too.

    Returns:
        How many, and the one that came after them.
    """
    codec = index.stream.codec
    order = _DecodeOrder(index) if codec in _NEVER_REORDERED else _DisplayOrder()
    ranks = index.packet_rank.data
    most = packets_a_call(picture)
    large = most <= _LARGE_A_CALL
    if codec in _NEVER_REORDERED:
        most = 1
    layout, size = _layout(picture)
    stream = session.stream
    # Wanted pictures that have not come: the number of each one's packet by its place in display order.
    expected: dict[int, int] = {}
    call = _Call()
    record, length_size, setup = b"", 0, setup_of(picture)
    fed, config, configs = 0, -1, index.packet_config.data
    leaving = False
    seen_from = 0  # the time of the first of those
    following: PacketBytes | None = None

    def give(surfaces: list[Any]) -> None:
        try:
            for surface in surfaces:
                number = expected.pop(order.next_shown(), None)
                if number is None:
                    continue
                if surface.framesize() != size:
                    raise SessionError(
                        f"NVDEC gave a picture of {surface.framesize()} bytes where {picture.width}×{picture.height} "
                        f"{picture.chroma} {picture.bit_depth} bit has {size}"
                    )
                if surface.getPTS() < seen_from:
                    raise SessionError(f"NVDEC gave the picture of packet {number} the time of an earlier one")
                sink(number, CudaSurface(surface.GetPtrToPlane(0), layout, surface), stream)
        finally:
            finish()

    def feed() -> None:
        nonlocal call, seen_from
        time = seen_from = 0
        if leaving:
            # By its latest picture: no picture may have a time before its rank, and take it from one that is wanted.
            time = _RANK * (1 + call.latest)
            seen_from = _RANK * (1 + min(expected)) if expected else _NEVER
        payload, call = bytearray().join(call.pieces), _Call()
        give(session.feed(payload, time=time, seen_from=seen_from))

    for packet in packets:
        if not fed:
            # A run that begins with a picture that nobody looks at mostly has many of them. In other codecs a picture
            # that PyNvVideoCodec takes for one that no other refers to, and then does not decode, may be referred to
            # all the same.
            leaving = leaves_out and codec == "h264" and not packet.wanted
        if configs[packet.number] != config:
            config = configs[packet.number]
            record = index.stream.codec_configs[config]
            if fed and _setup_of_record(index, config) != setup:
                following = packet
                break
            length_size = nal_length_size(codec, record)
            call.pieces.append(annex_b_headers(codec, record))
        rank = ranks[packet.number] if packet.place is None else packet.place
        if rank < 0:
            raise DecodeError(f"the order of its pictures cannot be told from packet {packet.number} on")
        if leaving and (packet.wanted or rank > _LATEST):
            if call.packets:
                feed()
            if large and rank <= _LATEST:
                # From here on each picture has a time of its own, by which those between two wanted ones are left out.
                most = 1
            else:
                leaving = False
        if codec in _WITH_PARAMETER_SETS:
            before = len(call.pieces)
            parameter_sets = add_annex_b(call.pieces, packet.data, codec, length_size)
            if parameter_sets and setup_of(_announced(codec, parameter_sets)) != setup:
                del call.pieces[before:]
                following = packet
                break
        else:
            if reason := contradiction(codec, packet.data, picture):
                raise DecodeError(f"packet {packet.number} contradicts the stream: {reason}")
            call.pieces.append(packet.data)
        order.feed(packet.number, rank)
        if packet.wanted:
            expected[rank] = packet.number
        call.packets, call.latest = call.packets + 1, max(call.latest, rank)
        fed += 1
        if call.packets == most:
            feed()
    if call.packets:
        feed()
    # Always: it makes the session ready for the next video, and the last pictures come out only now.
    feed()
    if order.outstanding:
        raise SessionError(f"NVDEC gave {order.outstanding} pictures less than it should")
    return fed, following


def _setup_of_record(index: VideoIndex, config: int) -> tuple[object, ...] | None:
    picture = section_format(index.stream, config)
    return None if picture is None else setup_of(picture)


class _DisplayOrder:
    """Ties pictures to packets, by their place in it, for codecs that reorder: pictures come out in display order.

    So each picture is of the earliest-shown packet that was fed and has not come out, as long as each packet
    becomes a picture. (NVDEC's own timestamps say no more: its parser hands them out in rising order.)
    """

    def __init__(self) -> None:
        self._fed: list[int] = []

    @property
    def outstanding(self) -> int:
        return len(self._fed)

    def feed(self, number: int, rank: int) -> None:
        heappush(self._fed, rank)

    def next_shown(self) -> int:
        if not self._fed:
            raise SessionError("NVDEC gave more pictures than packets")
        return heappop(self._fed)


class _DecodeOrder:
    """The same for codecs that never reorder: first in, first out; there a packet may show nothing."""

    def __init__(self, index: VideoIndex) -> None:
        self._shown = index.packet_has_frame
        self._fed: deque[int] = deque()

    @property
    def outstanding(self) -> int:
        return len(self._fed)

    def feed(self, number: int, rank: int) -> None:
        if self._shown[number]:
            self._fed.append(rank)

    def next_shown(self) -> int:
        if not self._fed:
            raise SessionError("NVDEC gave more pictures than packets show")
        return self._fed.popleft()


def _layout(picture: PictureFormat) -> tuple[SurfaceLayout, int]:
    """Where the samples of a picture are, and its size as PyNvVideoCodec tells it, bytes.

    Planes are contiguous; rows of subsampled formats are as long as an even width.
    """
    wide, planar = picture.bit_depth > 8, picture.chroma == "444"
    pitch = (picture.width if planar else (picture.width + 1) // 2 * 2) * (2 if wide else 1)
    pixels: NvdecFormat = ("yuv444_16" if wide else "yuv444") if planar else ("p016" if wide else "nv12")
    # The size leaves out the last chroma row of an odd height; the row is there.
    size = pitch * picture.height * 3 if planar else pitch * picture.height * 3 // 2
    return nvdec_layout(picture.width, picture.height, pitch, pixels, picture.bit_depth), size
