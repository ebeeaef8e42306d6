"""Read the first bytes of keyframes to check that decoding can start there and to find parameter sets."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.headers_before import HeadersBefore
from videoloader.indexing.bitstream.nal import H264_IDR, iterate_nals, nal_length_size
from videoloader.indexing.bitstream.parameter_sets import (
    SLICES,
    WITH_HEADERS,
    WITH_PARAMETER_SETS,
    is_set,
    memory_size,
    units_of,
)
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.bitstream.random_access import (
    breaks_sequence,
    has_idr,
    is_keyframe_slice,
    is_random_access,
)
from videoloader.indexing.bitstream.vpx import LONGEST_KEYFRAME_HEADER, keyframe_format
from videoloader.indexing.configurations import brings_others, with_configurations
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.number_leaps import looked_at_for, points_behind_leaps
from videoloader.indexing.sources.base import NEAR, ByteSource, read_starts
from videoloader.indexing.stream_info import StreamInfo

# Number of bytes that usually contain everything before a picture, and the number to try next.
_HEAD, _LONG_HEAD = 1 << 10, 16 << 10
# Codecs whose headers tell whether a packet is a keyframe.
_WITH_KEYFRAME_HEADERS = (*WITH_HEADERS, "vvc", "vp8", "vp9", "av1")
# Maximum number of packets examined when a video is indexed, if a read costs a system call or a network request. In
# videos with more, each keyframe is examined when decoding first starts there. Headers of MPEG-1, 2 and 4 also apply to
# later keyframes, so more are examined (in 10 µs each).
_MOST_NEAR, _MOST_FAR, _MOST_OF_MPEG = 2000, 8, 100_000


class Head(NamedTuple):
    """The facts in the first bytes of a packet.

    Attributes:
        starts: whether decoding can start there.
        units: the parameter sets in it, with header bytes, or its sequence headers.
        by_type: whether the type of its first slice says that decoding can start there (H.264 and HEVC).
        breaks: whether a sequence of HEVC ends before its picture, or a broken link begins with it.
    """

    starts: bool
    units: list[bytes]
    by_type: bool = False
    breaks: bool = False


# The head of most H.264 keyframes: no parameter sets come before the picture.
_IDR_FIRST = Head(True, [], by_type=True)


def most_looked_at(source: ByteSource) -> int:
    """Return the maximum number of single packets to examine when a video is indexed."""
    return _MOST_NEAR if source.read_through <= NEAR else _MOST_FAR


def _are_looked_at(codec: str, source: ByteSource, keyframes: int) -> bool:
    if codec not in _WITH_KEYFRAME_HEADERS:
        return False
    has_headers = codec in WITH_HEADERS and codec not in WITH_PARAMETER_SETS
    most = _MOST_OF_MPEG if has_headers and source.read_through <= NEAR else most_looked_at(source)
    return keyframes <= most


def with_keyframes_read(
    index: VideoIndex, source: ByteSource
) -> tuple[VideoIndex, dict[int, list[bytes]], list[int], set[bytes]]:
    """Check by the keyframes' own headers that they are keyframes, and collect their parameter sets.

    Args:
        index: index with packets that are byte ranges, and keyframes as the container marks them.
        source: source of the same video.

    Returns:
        The corrected index; for each keyframe the parameter sets or headers in force from it on; the keyframes of HEVC
        whose heads say that a new sequence begins, whatever came before (``Head.breaks``); and the different headers in
        keyframes of MPEG-1, 2 and 4.

    Raises:
        SourceError: the source cannot be read.
    """
    codec, configs = index.stream.codec, index.stream.codec_configs
    keys = index.packet_key.nonzero()[0]
    if index.stream.encrypted or not _are_looked_at(codec, source, len(keys)):
        return index, {}, [], set()
    false: list[int] = []
    breaks: list[int] = []
    recovery_points: list[int] = []
    brought: dict[int, list[bytes]] = {}
    before = HeadersBefore(codec)
    distinct: set[bytes] = set()
    columns = (keys, index.packet_config[keys], index.packet_offset[keys], index.packet_size[keys])
    packets, config_of, offsets, lengths = (column.tolist() for column in columns)
    pieces = (slice(at, at + _MOST_NEAR) for at in range(0, len(packets), _MOST_NEAR))
    starts = chain.from_iterable(read_starts(source, offsets[piece], lengths[piece], _HEAD) for piece in pieces)
    for packet, config, offset, size, start in zip(packets, config_of, offsets, lengths, starts, strict=True):
        told = read_head(codec, configs[config], start, size)
        if told is _IDR_FIRST:
            continue
        head = told or _head(source, codec, configs[config], offset, size)
        if not head.starts:
            false.append(packet)
        elif codec in WITH_PARAMETER_SETS:
            by_type = told is not None and told.by_type
            if codec == "h264" and packet and not by_type and not has_idr(configs[config], start):
                recovery_points.append(packet)
            if head.units:
                brought[packet] = head.units
            if head.breaks:
                breaks.append(packet)
        elif codec in WITH_HEADERS:
            headers = b"".join(head.units)
            if lacking := before.lacking(configs[config], headers):
                brought[packet] = lacking
            distinct.add(headers)
    all_looked_at = looked_at_for(len(recovery_points)) <= most_looked_at(source)
    if all_looked_at:
        false += points_behind_leaps(index, source, recovery_points)
    if false:
        index = index.without_keyframe(false)
    if len({memory_size(codec, headers) for headers in distinct if headers}) > 1:
        index = replace(index, stream=replace(index.stream, size_varies=True))
    index = with_configurations(index.known_by_headers() if all_looked_at else index, brought)
    return index, brought, breaks, distinct


def with_sets_found(index: VideoIndex, source: ByteSource, packet: int, units: list[bytes]) -> VideoIndex:
    """Correct an index of H.264 or HEVC by parameter sets that were found in a packet.

    The sets stay in force in the GOPs that follow, unless their keyframes replace them. An index that already knows the
    sets is returned unchanged.

    Args:
        index: index with packets that are byte ranges.
        source: source of the same video.
        packet: packet whose sets differ from the index.
        units: parameter sets of that packet.
    """
    if not brings_others(index, packet, units):
        return index
    brought = {packet: units}
    configs = index.stream.codec_configs
    following = index.packet_key.nonzero()[0]
    for number in following[following > packet].tolist() if index.byte_ranges else []:
        record = configs[index.packet_config[number]]
        if found := _head(source, index.stream.codec, record, *index.packet_range(number)).units:
            brought[number] = found
    return with_configurations(index, brought, since=packet)


def read_packet(index: VideoIndex, source: ByteSource, packet: int, most: int = 1 << 31) -> bytes:
    """Return the bytes of a packet, or at most this many of the first."""
    offset, size = index.packet_range(packet)
    return source.read(offset, min(size, most))


def is_random_access_at(index: VideoIndex, source: ByteSource, packet: int, most: int = 1 << 31) -> bool | None:
    """Whether decoding can start at a packet, by at most this many first bytes; None if headers do not tell."""
    config = index.config_at(packet)
    return is_random_access(index.stream.codec, config, read_packet(index, source, packet, most))


def coded_picture(stream: StreamInfo, source: ByteSource, offset: int, size: int) -> PictureFormat | None:
    """Return the format of a stream's pictures by its headers. For VP8 and VP9, they are in its first packet.

    Args:
        stream: stream as the container describes it.
        source: source of the video.
        offset, size: position and length of its first packet in bytes.
    """
    if stream.codec not in ("vp8", "vp9"):
        return picture_format(stream)
    return keyframe_format(stream.codec, source.read(offset, min(size, LONGEST_KEYFRAME_HEADER)))


def _head(source: ByteSource, codec: str, record: bytes, offset: int, size: int) -> Head:
    """Return the facts in the first bytes of a packet with this offset and size."""
    for most in (_HEAD, _LONG_HEAD, size):
        if head := read_head(codec, record, source.read(offset, min(size, most)), size):
            return head
    return Head(False, [])  # the file ends before the packet does


def read_head(codec: str, record: bytes, start: bytes | memoryview, size: int) -> Head | None:
    """Return the facts in a packet's first bytes about starting to decode there.

    Args:
        codec: codec of the stream, whose headers must tell keyframes.
        record: the packet's configuration record.
        start: its first bytes.
        size: size of the whole packet.

    Returns:
        The facts, or None if more of the packet is needed.
    """
    cut = len(start) < size
    if codec not in WITH_PARAMETER_SETS:
        starts = bool(is_random_access(codec, record, start))
        if cut and not starts:
            return None
        return Head(starts, units_of(codec, record, start) if codec in WITH_HEADERS else [])
    length_size = nal_length_size(codec, record)
    if codec == "h264" and 0 < length_size < len(start) and start[length_size] & 31 == H264_IDR:
        return _IDR_FIRST
    units: list[bytes] = []
    by_type = breaks = False
    for begin, end in iterate_nals(start, length_size):
        breaks = breaks or (codec == "hevc" and breaks_sequence(start[begin]))
        if SLICES[codec][start[begin]]:
            by_type = is_keyframe_slice(codec, start[begin])
            break
        if cut and end >= len(start):
            return None
        if is_set(codec, start[begin]):
            units.append(bytes(start[begin:end]))
    else:
        if cut:
            return None
    return Head(by_type or bool(is_random_access(codec, record, start)), units, by_type, breaks)
