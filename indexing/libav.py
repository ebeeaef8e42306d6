"""Index any container that libavformat reads, in one pass over its packets, or with a full decode if necessary."""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import av
import av.codec.context
import av.container
import av.error
import av.packet
import av.video.stream
import numpy as np
import numpy.typing as npt

from videoloader.errors import DecodeError, IndexingError, VideoWarning
from videoloader.indexing.bitstream.display_order import Places
from videoloader.indexing.bitstream.h264_fields import FieldReader
from videoloader.indexing.bitstream.random_access import (
    MARKED_BY_DECODER,
    has_break,
    is_random_access,
    reads_headers,
)
from videoloader.indexing.bitstream.vpx import hides_frame
from videoloader.indexing.configurations import renews_sequences, with_configurations
from videoloader.indexing.decoder import WELL_KNOWN_CODECS, several_pictures
from videoloader.indexing.demuxer import UNCONCEALED, demuxed
from videoloader.indexing.display_matrix import frame_orientation
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.limits import count_decoded_packet
from videoloader.indexing.packet_times import packet_times, presentation_times, reorder_depth
from videoloader.indexing.pictures import are_same
from videoloader.indexing.setups import Setups
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.video_stream import (
    chroma_of,
    open_video,
    packets_to_decode,
    stream_info_of,
    with_container_size,
)
from videoloader.indexing.wrong_times import deepest_reordering, times_are_wrong

# The longest header between where libavformat says a packet is and its first byte: an Ogg page header.
_LONGEST_PACKET_HEADER = 27 + 255
# Packets that are decoded to see whether each becomes one frame. That is enough to notice two fields in a frame, hidden
# frames, and the timestamps that libavformat makes up for AVI.
_CHECKED_PACKETS = 16
# Fewer packets if pictures are larger than 4K: damaged headers state any size, and such a picture takes a tenth of a
# second.
_CHECKED_PIXELS = 1 << 27
# The latest pictures, among which one that comes a second time is found; fewer, down to a minimum, if they have more
# pixels than three of 4K.
_COMPARED, _COMPARED_PIXELS, _LEAST_COMPARED = 32, 1 << 25, 6


class NothingDecodesError(DecodeError):
    """All packets of a video decode without an error, but to no frame."""


class _LastPacketError(DecodeError):
    """The last packet of a video, and no other, does not decode."""

    packet: int


class _Packets:
    """Columns of the packets, and (packet, timestamp) of each packet that an empty one after it shows once more."""

    def __init__(
        self, container: av.container.InputContainer, stream: av.video.stream.VideoStream, source: ByteSource
    ) -> None:
        self.container, self.stream, self.source = container, stream, source
        context = stream.codec_context
        self.codec, self.config = context.codec.canonical_name, context.extradata or b""
        self.setups = Setups(self.codec, self.config)
        self.places = Places(self.codec, self.config)
        self.fields = FieldReader(self.config)  # used for H.264
        self.has_lone_fields = False
        self.pts: list[int | None] = []
        self.dts: list[int | None] = []
        self.size: list[int] = []
        self.key: list[bool] = []
        self.starts: list[bool | None] = []
        self.hidden: list[bool] = []
        self.offset: list[int] | None = []
        self.repeats: list[tuple[int, int]] = []
        self.breaks: list[int] = []  # packets of HEVC in which a sequence ends, or that begin after a broken link

    def add(self, packet: av.packet.Packet[Any], payload: bytes) -> None:
        """Take in a packet, except for whether it is a keyframe and whether it is hidden."""
        if self.codec == "hevc" and has_break(self.config, payload):
            self.breaks.append(len(self.pts))
        self.pts.append(packet.pts)
        self.dts.append(packet.dts)
        self.size.append(packet.size)
        self.setups.add(packet, payload)
        self.starts.append(is_random_access(self.codec, self.config, payload))
        if self.offset is not None:
            offset = _find_payload(payload, packet.pos, self.source)
            if offset is None:
                self.offset = None
            else:
                self.offset.append(offset)


def index_by_demuxing(source: ByteSource) -> VideoIndex:
    """Index a video in one pass over its packets, or with a full decode if they do not say which frames they become."""
    with open_video(source) as (container, stream):
        packets = _Packets(container, stream, source)
        _read_packets(packets)
        if not packets.pts:
            raise IndexingError("has no video packets: it is cut off, or its packets lie in another file", source.name)
        # Pictures may be hidden or come in another order where a sequence ends before the last packet.
        in_order = _timestamps_give_the_order(packets) and all(each + 1 == len(packets.pts) for each in packets.breaks)
        index = _assemble_demuxed(packets) if in_order and not packets.has_lone_fields else None
    if index is None or renews_sequences(index, packets.setups.brought) or _are_wrong(packets, index, source):
        return index_by_decoding(source)
    return checked_by_decoding_head(index, source) or index_by_decoding(source)


def checked_by_decoding_head(index: VideoIndex, source: ByteSource) -> VideoIndex | None:
    """Return the index, its picture described by the first frame; None if the first packets become other frames."""
    fed, times, first = _decode_head(source)
    expected = np.sort(index.packet_pts[np.intersect1d(index.frame_packet, np.arange(fed))])
    if first is None or times != expected.tolist():
        return None
    stream = replace(
        index.stream,
        width=first.width,
        height=first.height,
        bit_depth=first.format.components[0].bits,
        chroma=chroma_of(first.format.name),
        **frame_orientation(first),
    )
    return replace(index, stream=stream)


def _read_packets(packets: _Packets) -> None:
    incomplete: list[int] = []
    for packet in demuxed(packets.container, packets.stream, incomplete):
        if _repeats_the_last(packet, packets.codec) and packets.pts:
            packets.repeats.append((len(packets.pts) - 1, packet.pts))  # type: ignore[arg-type]
        if packet.size:
            payload = bytes(packet)
            packets.add(packet, payload)
            packets.key.append(packet.is_keyframe)
            packets.hidden.append(packet.is_discard or hides_frame(packets.codec, payload[0], payload[-1]))
            packets.places.add(payload, goes_on=not packet.has_sidedata("new_extradata"))
            if packets.codec == "h264" and not packets.has_lone_fields:
                if packet.has_sidedata("new_extradata"):
                    packets.fields = FieldReader(bytes(packet.get_sidedata("new_extradata")))
                packets.has_lone_fields = packets.fields.is_lone_field(payload)
    if incomplete:
        _tell_of_cut(f"its last packet has only {incomplete[0]} bytes", packets.source)


def _are_wrong(packets: _Packets, index: VideoIndex, source: ByteSource) -> bool:
    """Whether pictures may come out of a decoder in another order than their packets' times say."""
    if packets.places.known is None:
        return index.byte_ranges and times_are_wrong(index, source, _decode_times(packets))
    places = np.array(packets.places.known, np.int64)[index.frame_packet]
    return bool((places[1:] < places[:-1]).any()) or index.stream.reorder_depth > deepest_reordering(index.stream)


def _repeats_the_last(packet: av.packet.Packet[Any], codec: str) -> bool:
    """Whether an empty packet shows the frame before it once more (section 7.11 of the Theora specification).

    libavcodec takes an empty packet for the end of the stream; players that get one keep showing the last frame.
    """
    return codec == "theora" and not packet.size and packet.pts is not None


def _find_payload(payload: bytes, position: int | None, source: ByteSource) -> int | None:
    """Return the offset of a packet's bytes, if they lie in one piece near where libavformat says; else None."""
    if position is None or position < 0:
        return None
    around = source.read(position, _LONGEST_PACKET_HEADER + len(payload))
    start = around.find(payload)
    return position + start if start >= 0 else None


def _timestamps_give_the_order(packets: _Packets) -> bool:
    reorders = packets.stream.codec_context.has_b_frames or packets.setups.has_several_headers
    if packets.container.format.name == "avi" and reorders:
        return False  # AVI has no presentation times: libavformat counts packets, by what the first headers say
    shown = [pts for pts, hidden in zip(packets.pts, packets.hidden, strict=True) if not hidden]
    if any(pts is None for pts in packets.pts) or len(set(shown)) != len(shown) or not packets.key[0]:
        return False
    return all(pts >= packets.pts[0] for pts in shown)  # type: ignore[operator]


def _decode_times(packets: _Packets) -> npt.NDArray[np.int64] | None:
    return None if None in packets.dts else np.array(packets.dts, np.int64)


def _assemble_demuxed(packets: _Packets) -> VideoIndex:
    pts = np.array(packets.pts, np.int64)
    shown = np.flatnonzero(~np.array(packets.hidden, np.bool_))
    again = np.array(packets.repeats, np.int64).reshape(-1, 2).T
    frame_packet, frame_pts = np.append(shown, again[0]), np.append(pts[shown], again[1])
    order = np.argsort(frame_pts, kind="stable")
    return _assemble(packets, "demuxed", pts, frame_packet[order], frame_pts[order])


def _assemble(
    packets: _Packets,
    method: Literal["demuxed", "decoded"],
    packet_pts: npt.NDArray[np.int64],
    frame_packet: npt.NDArray[np.int64],
    frame_pts: npt.NDArray[np.int64],
) -> VideoIndex:
    count = len(packets.size)
    index = VideoIndex(
        source=packets.source.name,
        container=packets.container.format.name,
        method=method,
        packet_offset=np.array(packets.offset if packets.offset is not None else np.zeros(count), np.int64),
        packet_size=np.array(packets.size, np.int32),
        packet_pts=packet_pts,
        packet_key=np.array(packets.key, np.bool_) & [start is not False for start in packets.starts],
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=packets.setups.of_packets(packets.source.name),
        frame_packet=frame_packet.astype(np.int32),
        frame_pts=frame_pts,
        byte_ranges=packets.offset is not None,
        keys_from=_keys_from(packets.codec, method),
        stream=replace(
            with_container_size(packets.setups.describe(stream_info_of(packets.stream, reorder_depth(packet_pts)))),
            stream_number=packets.stream.index,
        ),
        start_time=packets.container.start_time or 0,
    )
    return with_configurations(index, packets.setups.brought)


def _keys_from(codec: str, method: str) -> Literal["headers", "decoder", "container"]:
    """Return what vouches for keyframes when all packets were examined or decoded; known codecs are checked more."""
    if reads_headers(codec) and codec not in WELL_KNOWN_CODECS:
        return "headers"
    return "decoder" if method == "decoded" and codec in MARKED_BY_DECODER else "container"


def _decode_head(source: ByteSource) -> tuple[int, list[int | None], av.VideoFrame | None]:
    """Return (packets decoded, timestamps of their frames, the first frame); no frame if a packet does not decode."""
    fed, pixels = 0, 0
    times: list[int | None] = []
    first = None
    with open_video(source) as (container, stream):
        codec = stream.codec_context.codec.canonical_name
        every = packets_to_decode(container, stream, source)
        packets = (packet for packet in every if not _repeats_the_last(packet, codec))
        head = itertools.islice(packets, _CHECKED_PACKETS)
        try:
            while pixels < _CHECKED_PIXELS and (packet := next(head, None)) and packet.size:
                fed += 1
                for frame in packet.decode():
                    assert isinstance(frame, av.VideoFrame)
                    times.append(frame.pts)
                    pixels += frame.width * frame.height
                    first = first or frame
            for frame in stream.codec_context.decode(None):
                times.append(frame.pts)
                first = first or frame
        except av.error.FFmpegError:
            return fed, [], None
    return fed, times, first


class _OnePictureEach:
    """Checks that no packet decodes to several different pictures.

    MPEG-4's decoder may show a picture early, and in its place once more. So the latest pictures are kept, to see
    whether one that comes again is the same.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._shown, self._recent = set[int](), deque[tuple[int, av.VideoFrame]](maxlen=_COMPARED)

    def add(self, packet: int, frame: av.VideoFrame) -> None:
        """Take the next picture. UnsupportedError if its packet has shown another one."""
        if not frame.pict_type:
            return  # the decoder has made it up for a missing picture
        same = (are_same(frame, other) for number, other in self._recent if number == packet)
        if packet in self._shown and not any(same):
            raise several_pictures(packet, self._source)
        self._shown.add(packet)
        self._recent.append((packet, frame))
        while len(self._recent) > _LEAST_COMPARED and len(self._recent) * frame.width * frame.height > _COMPARED_PIXELS:
            self._recent.popleft()


def index_by_decoding(source: ByteSource, *, may_be_cut_off: bool = True) -> VideoIndex:
    """Index a video with one full decode, which is exact for any stream but costs that decode.

    Each packet's number travels through the decoder as its timestamp, so frames are tied to their packets whatever
    times the container gives.

    Args:
        source: source of the video.
        may_be_cut_off: whether to leave out a last packet that does not decode, as where a recording was interrupted.

    Raises:
        DecodeError: a packet does not decode.
        UnsupportedError: a packet decodes to several different pictures.
        NothingDecodesError: all packets decode, but to no frame.
    """
    try:
        return _decoded(source)
    except _LastPacketError as error:
        if not may_be_cut_off:
            raise
        index = _decoded(source, left_out=error.packet)
        _tell_of_cut(error.message, source)
        return index


def _tell_of_cut(fault: str, source: ByteSource) -> None:
    message = f"{source.name}: {fault}, as if the file were cut off there; it is left out"
    warnings.warn(message, VideoWarning, stacklevel=2)


def _decoded(source: ByteSource, left_out: int = -1) -> VideoIndex:
    with open_video(source) as (container, stream):
        packets = _Packets(container, stream, source)
        stream.codec_context.options = stream.codec_context.options | UNCONCEALED
        frames: list[int] = []
        check = _OnePictureEach(source.name)
        times: list[int | None] = []
        marked = packets.codec in WELL_KNOWN_CODECS or packets.codec in MARKED_BY_DECODER
        sizes: dict[tuple[int, int], dict[str, Any]] = {}
        coming = packets_to_decode(container, stream, source)
        for packet in coming:
            number = len(packets.pts)
            if packet.size and number == left_out:
                continue
            if _repeats_the_last(packet, packets.codec):
                frames += frames[-1:]
                times += [packet.pts] * bool(times)
                continue
            if packet.size:
                packets.add(packet, bytes(packet))
                packets.key.append(not marked and (packet.is_keyframe or packets.starts[-1] is True))
                packet.pts = number
            count_decoded_packet()
            try:
                for frame in packet.decode():
                    assert isinstance(frame, av.VideoFrame)
                    if frame.pts is not None:
                        check.add(frame.pts, frame)
                        frames.append(frame.pts)
                        times.append(packets.pts[frame.pts])
                        if (size := (frame.width, frame.height)) not in sizes:
                            sizes[size] = frame_orientation(frame)
                        packets.key[frame.pts] |= frame.key_frame and marked
            except av.error.FFmpegError as error:
                fault = f"packet {number} does not decode: {error.strerror}"
                if number and packet.size and not any(each.size for each in coming):
                    raise _LastPacketError(fault, source.name, number) from None
                raise DecodeError(fault, source.name) from None
        if not frames:
            raise NothingDecodesError(f"none of its {len(packets.pts)} packets decodes to a frame", source.name)
        frame_packet = np.array(frames, np.int64)
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        duration = float(1 / (rate * Fraction(stream.time_base or 1)))
        # AVI numbers packets, not frames.
        frame_pts = presentation_times(times, duration, in_order=container.format.name == "avi")
        packet_pts = packet_times(frame_packet, frame_pts, len(packets.pts))
        index = _assemble(packets, "decoded", packet_pts, frame_packet, frame_pts)
        (width, height), turned = next(iter(sizes.items()))
        stream_info = replace(index.stream, width=width, height=height, size_varies=len(sizes) > 1, **turned)
        return replace(index, stream=stream_info)
