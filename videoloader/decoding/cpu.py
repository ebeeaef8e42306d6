"""Decode runs of packets on the CPU with libavcodec, in contexts that stay open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import chain

import av
import av.error
import av.video.codeccontext

from videoloader.decoding.h263_start import show_sound_h263_endings
from videoloader.decoding.mpeg4_start import packets_behind, show_first_b_picture, show_notes, show_sound_endings
from videoloader.decoding.vp8_check import Vp8Check
from videoloader.indexing.bitstream.jpeg import HUFFMAN, segments_before_scan, tables_brought
from videoloader.indexing.bitstream.lost_data import lost_data_check
from videoloader.indexing.bitstream.mpeg4_times import UNEVEN
from videoloader.indexing.bitstream.parameter_sets import WITH_HEADERS, WITH_PARAMETER_SETS, sequence_headers, units_of
from videoloader.indexing.bitstream.random_access import has_idr
from videoloader.indexing.bitstream.x264_version import demands_version
from videoloader.indexing.configurations import brings_others
from videoloader.indexing.decoder import (
    decode_packet,
    gives_one_each,
    make_packet,
    open_decoder,
    several_pictures,
    size_told,
)
from videoloader.indexing.images.index import is_jpeg
from videoloader.indexing.images.self_contained import may_remember, remembered
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import PacketBytes

_OPEN_CONTEXTS = 8
# Codecs whose decoders keep nothing over a flush that the next keyframe does not replace, except parameter sets and
# headers, which are tracked here. For all other codecs each run gets a new context.
_WITH_CLEAN_START = (*WITH_HEADERS, "mjpeg", "vp8", "vp9", "av1")

FrameSink = Callable[[int, av.VideoFrame], None]
_ContextKey = tuple[Hashable, ...]


@dataclass(eq=False)
class RunOutcome:
    """The outcome of decoding a run.

    Attributes:
        fed: number of packets given to the decoder.
        concealed: packets whose pictures came out damaged, wanted or not.
        refused: reason for each packet that the decoder refused.
        missing: wanted packets whose pictures did not come out.
        unseen: packets whose pictures did not come out beside a refused packet. libavcodec drops the picture that it
            was about to output when it refuses a packet, and with it the mark that the picture is damaged.
        guessed: packets whose pictures depend on missing pictures that libavcodec invents; see ``FrameNumGaps``.
    """

    fed: int = 0
    concealed: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    missing: set[int] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)
    guessed: set[int] = field(default_factory=set)

    @property
    def suspect(self) -> set[int]:
        """Packets at which something may be wrong."""
        return self.concealed | self.refused.keys() | self.missing | self.unseen | self.guessed


@dataclass(eq=False)
class _Open:
    """A context that stays open.

    Attributes:
        context: libavcodec's context.
        key: key that it was opened for; None if it serves one run only.
        headers: the sequence headers that it has (MPEG-1, 2 and 4), or the tables of JPEG if it was given any.
        remembered: notes of its pictures, as the function ``remembered`` returns them.
    """

    context: av.video.codeccontext.VideoCodecContext
    key: _ContextKey | None
    headers: bytes
    remembered: frozenset[bytes] | None


class CpuDecoder:
    """A decoder for one thread. Its libavcodec contexts stay open from clip to clip.

    Nothing that a run does to a context is visible to another run. Contexts of H.264 and HEVC belong to one
    configuration, and are closed when packets bring another one. A context in which anything went wrong is closed, too.
    """

    def __init__(self) -> None:
        self._contexts: OrderedDict[_ContextKey, _Open] = OrderedDict()

    def decode(
        self,
        index: VideoIndex,
        packets: Iterable[PacketBytes],
        sink: FrameSink,
        *,
        strict: bool = False,
        fresh: bool = False,
        holds_back: bool = False,
    ) -> RunOutcome:
        """Decode one run, from a keyframe on, until all wanted frames have come out, including damaged ones.

        The packet's number travels through the decoder as its timestamp, so a frame always belongs to its packet,
        whatever order or number of frames the decoder outputs.

        Args:
            index: index of the video.
            packets: packets of the run, in decode order. All are read, even after one that ends the run.
            sink: function called as ``sink(packet number, frame)`` for each wanted packet, in display order. The frame
                is the sink's to keep.
            strict: refuse packets from which libavcodec would otherwise make something that is not always the same; see
                ``open_decoder``.
            fresh: whether to use a decoder that has seen nothing before, and to continue after packets that it refuses.
                How damage is concealed depends on everything in a decoder's memory. Without this, the first refused
                packet ends the run.
            holds_back: decode into other memory; see ``open_decoder``. Only for a decoder that is ``fresh``.

        Raises:
            UnsupportedError: there is no decoder for the codec, or a packet decodes to several pictures.
        """
        outcome, clean = RunOutcome(), True
        expected = outcome.missing
        coming = iter(packets)
        if (first := next(coming, None)) is None:
            return outcome
        codec, configs = index.stream.codec, index.packet_config
        number, config = first.number, configs[first.number]
        opened = self._take(index, number, first.data, strict=strict, fresh=fresh, holds_back=holds_back)
        context, packets = opened.context, chain((first,), coming)
        del first  # it would keep alive the memory of everything that was read in one piece with it
        remembers = may_remember(index)
        lacks_data = lost_data_check(codec, index.stream.codec_configs[config])
        check = Vp8Check(index) if codec == "vp8" else None
        previous: int | None = None
        sent = list[int]()
        came = 0
        # The packets whose pictures came out. If a run does not begin with a keyframe, MPEG-4 decoders make up the
        # picture that is missing there, and output it under the number of the packet that refers to it.
        given = set[int | None]()
        begins_late = not index.packet_key[number]
        one_each = gives_one_each(index)

        def take(frames: list[av.VideoFrame]) -> None:
            nonlocal came
            came += len(frames)
            for frame in frames:
                came_before = frame.pts in given
                given.add(frame.pts)
                if frame.is_corrupt or (came_before and begins_late):
                    outcome.concealed.add(number if frame.pts is None else frame.pts)
                elif came_before and one_each and frame.pts is not None and not (outcome.concealed or outcome.refused):
                    raise several_pictures(frame.pts, index.source)
                if frame.pts in expected:
                    expected.remove(frame.pts)
                    sink(frame.pts, frame)

        for number, data, wanted, headers, _, guessed in packets:
            memory = opened.remembered
            if remembers and previous is not None and (memory is None or remembered(index, data) != memory):
                # Decode each file, or picture of Motion JPEG with other notes, as if there were no other.
                opened = self._take(index, number, data, strict=strict, fresh=fresh)
                context = opened.context
            if wanted:
                expected.add(number)
            if configs[number] != config or (headers and _brings_others(index, number, data)):
                clean = False
            if headers or (codec == "mjpeg" and index.container != "images"):
                before, opened.headers = opened.headers, _headers(codec, data) or opened.headers
                if codec == "mpeg4" and before != opened.headers:
                    clean = False  # the decoder remembers encoders that only earlier headers name
            outcome.fed += 1
            sent.append(number)
            if lacks_data is not None and lacks_data(data):
                outcome.concealed.add(number)
            if guessed:
                outcome.guessed.add(number)
            try:
                frames = decode_packet(context, make_packet(index, data, number, previous))
                if check is not None and check.finds_unfinished(number, data, frames):
                    outcome.concealed.add(number)
                take(frames)
            except av.error.FFmpegError as error:
                outcome.refused[number] = str(error.strerror)
                if not fresh:
                    break
            previous = number
        for _ in packets:
            pass  # read on after a refused packet, since later ones may show that the index is wrong
        if expected or came < outcome.fed or begins_late or codec == "av1":
            # Pictures that are held back may be damaged, and those that came out may refer to them. For AV1, libdav1d
            # holds back the second picture of a packet.
            behind = packets_behind(index, number, data) if codec == "mpeg4" else []
            clean = clean and not behind
            try:
                for packet in (*behind, None):
                    frames = decode_packet(context, packet)
                    take([each for each in frames if each.pts is not None] if behind else frames)
            except av.error.FFmpegError as error:
                outcome.refused.setdefault(number, str(error.strerror))
        if outcome.refused:
            outcome.unseen = set(sent) - given - outcome.refused.keys()
        if opened.key is not None and clean and not outcome.suspect:
            self._give_back(opened)
        return outcome

    def _take(
        self,
        index: VideoIndex,
        packet: int,
        data: bytes | memoryview,
        *,
        strict: bool,
        fresh: bool,
        holds_back: bool = False,
    ) -> _Open:
        """Take a context for the run that begins with this packet. It is given back if the run ends well."""
        config = int(index.packet_config[packet])
        codec, record = index.stream.codec, index.stream.codec_configs[config]
        # Strict decoding would refuse a recovery point, since the packets before it are left out on purpose.
        strict = strict and (codec != "h264" or has_idr(record, data))
        memory = remembered(index, data)
        # What comes before the first keyframe refers to pictures that a decoder makes up, by what is in its memory.
        fresh = fresh or not index.packet_key[packet] or index.stream.first_b_distance == UNEVEN
        key = None if fresh or memory is None else _context_key(index, packet, data)
        key = key and (strict, memory, *key)
        kept = None if key is None else self._contexts.pop(key, None)
        if kept is not None and (is_jpeg(index) or _may_serve(kept, codec, record, data)):
            kept.context.flush_buffers()
            return kept
        context = open_decoder(index, packet, strict=strict, holds_back=holds_back)
        if codec == "mpeg4":
            show_notes(context, index, packet)
            if strict:
                show_sound_endings(context, index, packet, data)
            show_first_b_picture(context, index, packet, data)
        elif strict and codec in ("h263", "flv1"):
            show_sound_h263_endings(context, index, packet, data)
        return _Open(context, key, _first_headers(codec, record, data), memory)

    def _give_back(self, opened: _Open) -> None:
        assert opened.key is not None
        self._contexts[opened.key] = opened
        if len(self._contexts) > _OPEN_CONTEXTS:
            self._contexts.popitem(last=False)


def _headers(codec: str, data: bytes | memoryview) -> bytes:
    """Return the headers in a packet or configuration record that stay in force in a context for later packets."""
    if codec == "mjpeg":
        return b"Huffman tables" if HUFFMAN in segments_before_scan(data)[0] else b""
    if codec in WITH_HEADERS and codec not in WITH_PARAMETER_SETS:
        return sequence_headers(codec, data)
    return b""


def _brings_others(index: VideoIndex, packet: int, data: bytes | memoryview) -> bool:
    """Whether a packet of H.264 or HEVC has parameter sets that differ from its configuration."""
    codec = index.stream.codec
    if codec not in WITH_PARAMETER_SETS:
        return False
    record = index.config_at(packet)
    return brings_others(index, packet, units_of(codec, record, data))


def _may_serve(opened: _Open, codec: str, record: bytes, data: bytes | memoryview) -> bool:
    """Whether nothing that a context keeps from earlier runs affects a run that begins with this packet."""
    if codec == "mjpeg":
        tables = tables_brought(data)
        # A decoder has Huffman tables of its own, until it is given others.
        return tables is not None and tables.quantization and (tables.codes or not opened.headers)
    if codec == "mpeg4":
        return opened.headers == _first_headers(codec, record, data)
    return opened.headers == _headers(codec, record) or _headers(codec, data) != b""


def _first_headers(codec: str, record: bytes, data: bytes | memoryview) -> bytes:
    """Return the headers that a new context has, in MPEG-4 after the first packet of a run."""
    return (codec == "mpeg4" and _headers(codec, data)) or _headers(codec, record)


def _context_key(index: VideoIndex, start: int, first_packet: bytes | memoryview) -> _ContextKey | None:
    """Return what the context for a run starting here depends on; None if it must not serve another run.

    H.264 and HEVC videos with the same configuration share a context, and so the memory of its frames. JPEG files share
    one, too. Videos of H.264 4:4:4 do not, since the context remembers the version of their encoder and decodes
    accordingly.
    """
    stream = index.stream
    if is_jpeg(index):
        return ("mjpeg",)
    if stream.codec not in _WITH_CLEAN_START:
        return None
    record = stream.codec_configs[index.packet_config[start]]
    facts = (
        stream.codec, stream.codec_tag, stream.width, stream.height, size_told(index, start), stream.pixel_format,
        stream.bits_per_coded_sample, stream.reorder_depth,
    )  # fmt: skip
    shared = stream.codec in WITH_PARAMETER_SETS and bool(record)
    if stream.codec == "h264" and demands_version(record, first_packet):
        shared = False
    return record, facts, None if shared else (index.source, index.content)
