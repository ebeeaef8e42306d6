"""Index of a Matroska or WebM file from its own elements (RFC 9559)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.bitstream.hidden import hides_frame
from videoloader.indexing.bitstream.nal import iterate_nals
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.bitstream.vpx import LONGEST_KEYFRAME_HEADER, keyframe_format
from videoloader.indexing.index import StreamInfo, VideoIndex
from videoloader.indexing.matroska.blocks import (
    ATTACHMENTS,
    CLUSTER,
    INFO,
    SEEK_HEAD,
    TOP_LEVEL,
    TRACKS,
    Packets,
    read_packets,
)
from videoloader.indexing.matroska.ebml import (
    CRC32,
    EBML,
    LONGEST_HEADER,
    SEGMENT,
    VOID,
    Element,
    MalformedError,
    iterate_elements,
    read_header,
    read_master,
    read_string,
    read_uint,
)
from videoloader.indexing.matroska.tracks import VIDEO, Track, read_tracks
from videoloader.indexing.reordering import reorder_depth
from videoloader.indexing.sources import ByteSource

EBML_MAGIC = EBML.to_bytes(4, "big")
_READ_VERSION, _MAX_ID_LENGTH, _MAX_SIZE_LENGTH, _DOC_TYPE, _DOC_TYPE_READ_VERSION = (
    0x42F7,
    0x42F2,
    0x42F3,
    0x4282,
    0x4285,
)
_TIMESTAMP_SCALE, _SEEK_ID, _SEEK_POSITION = 0x2AD7B1, 0x53AB, 0x53AC
_NANOSECONDS = 10**9
# Tracks whose blocks libavformat takes: video, audio, subtitles, metadata.
_TAKEN_TYPES = (1, 2, 0x11, 0x21)
_UNSPECIFIED = 2
_LONGEST_FIRST_PACKET = 1 << 20
# Where the picture's format stands if not in CodecPrivate.
_PICTURE_FROM_PACKET, _PICTURE_FROM_DECODER = ("vp8", "vp9"), ("mjpeg", "ffv1", "theora")
_ONLY_KEYFRAMES = ("mjpeg",)


class _Headers(NamedTuple):
    """What stands before the first cluster; ``clusters`` is where that begins, ``stop`` where the segment ends."""

    time_scale: int
    tracks: list[Track]
    has_attachments: bool
    clusters: int
    stop: int | None


def index_matroska(source: ByteSource) -> VideoIndex | None:
    """The index of the file's best video track, or None where only libavformat can tell.

    That is so for compressed and encrypted blocks, codecs that are not known here or whose blocks may not be
    one frame each (fields, MPEG-4), frames without a timestamp of their own, and damaged files.

    Raises:
        IndexingError: the video track has no frames.
    """
    try:
        headers = _read_headers(source)
        track = _choose_track(headers)
        if track is None:
            return None
        numbers = {each.number for each in headers.tracks}
        packets, found = read_packets(
            source, headers.clusters, headers.stop, track.number, numbers, (track.default_duration, headers.time_scale)
        )
    except MalformedError:
        return None
    if ATTACHMENTS in found and not track.is_default:
        return None
    if not len(packets.offset):
        raise IndexingError("the video track has no frames", source.name)
    if not track.config and track.codec in ("h264", "hevc"):
        track = track._replace(config=_parameter_sets_in_packet(source, track.codec, packets))
    stream = _describe(source, track, packets, headers.time_scale)
    return _assemble(source, track, packets, stream) if stream is not None else None


def _read_headers(source: ByteSource) -> _Headers:
    ebml = _read_element(source, 0)
    _check_version(dict(iterate_elements(read_master(source, ebml))))
    segment = _read_element(source, ebml.stop or 0)
    if segment.id != SEGMENT or (segment.stop is not None and segment.stop < source.size):
        raise MalformedError("no segment, or something after it")
    masters: dict[int, bytes] = {}
    seek_heads = b""
    has_attachments = False
    position = segment.start
    while (element := _read_element(source, position)).id != CLUSTER:
        if element.id in (INFO, TRACKS):
            if element.id in masters:
                raise MalformedError(f"a second element {element.id:X} at byte {position}")
            masters[element.id] = read_master(source, element)
        elif element.id not in (*TOP_LEVEL, VOID, CRC32):
            raise MalformedError(f"element {element.id:X} at byte {position} is no part of a segment")
        elif element.id == SEEK_HEAD:
            seek_heads += read_master(source, element)
        has_attachments |= element.id == ATTACHMENTS
        if element.stop is None:
            raise MalformedError(f"element {element.id:X} at byte {position} has no size")
        position = element.stop
    for kind in {INFO, TRACKS} - masters.keys():
        # After the clusters: only the seek head leads there.
        element = _read_element(source, segment.start + _read_seek_head(seek_heads).get(kind, source.size))
        if element.id != kind:
            raise MalformedError(f"element {kind:X} is not where the seek head says")
        masters[kind] = read_master(source, element)
    scale = read_uint(dict(iterate_elements(masters[INFO])).get(_TIMESTAMP_SCALE, b"")) or 1_000_000
    if scale >= 1 << 31:
        raise MalformedError(f"a time scale of {scale} ns")
    return _Headers(scale, read_tracks(masters[TRACKS]), has_attachments, position, segment.stop)


def _read_seek_head(data: bytes) -> dict[int, int]:
    """Positions of elements in the segment by their ids; the first where one is told of twice."""
    positions: dict[int, int] = {}
    for _, payload in iterate_elements(data):
        entry = dict(iterate_elements(payload))
        positions.setdefault(read_uint(entry.get(_SEEK_ID, b"")), read_uint(entry.get(_SEEK_POSITION, b"")))
    return positions


def _read_element(source: ByteSource, position: int) -> Element:
    return Element(*read_header(source.read(position, LONGEST_HEADER), 0, position))


def _check_version(header: dict[int, bytes]) -> None:
    numbers = [
        read_uint(header.get(element, default)) <= largest
        for element, default, largest in (
            (_READ_VERSION, b"\1", 1),
            (_MAX_ID_LENGTH, b"\4", 4),
            (_MAX_SIZE_LENGTH, b"\10", 8),
            (_DOC_TYPE_READ_VERSION, b"\1", 3),
        )
    ]
    if not all(numbers) or read_string(header.get(_DOC_TYPE, b"")) not in ("matroska", "webm"):
        raise MalformedError("another kind or a later version of EBML")


def _choose_track(headers: _Headers) -> Track | None:
    """The track that av_find_best_stream takes, where its flags alone decide that.

    Between equals libavformat goes by how many frames it happened to look at.
    """
    numbers = [track.number for track in headers.tracks]
    if len(set(numbers)) < len(numbers) or any(track.type not in _TAKEN_TYPES for track in headers.tracks):
        return None
    ranks = [(track.is_default + (not track.is_impaired), track) for track in headers.tracks if track.type == VIDEO]
    if not ranks:
        return None
    best = max(rank for rank, _ in ranks)
    chosen = [track for rank, track in ranks if rank == best]
    # A picture among the attachments is a video stream too.
    if len(chosen) > 1 or not chosen[0].codec or (headers.has_attachments and not chosen[0].is_default):
        return None
    return chosen[0]


def _parameter_sets_in_packet(source: ByteSource, codec: str, packets: Packets) -> bytes:
    """What stands for a configuration record where packets have start codes: the first packet's parameter sets."""
    first = source.read(int(packets.offset[0]), min(int(packets.size[0]), _LONGEST_FIRST_PACKET))
    units = [first[start:stop].rstrip(b"\0") for start, stop in iterate_nals(first, 0)]
    if codec == "h264":
        sets = [unit for unit in units if unit and unit[0] & 31 in (7, 8)]
    else:
        sets = [unit for unit in units if unit and 32 <= unit[0] >> 1 & 63 <= 34]
    return b"".join(b"\0\0\1" + unit for unit in sets)


def _describe(source: ByteSource, track: Track, packets: Packets, time_scale: int) -> StreamInfo | None:
    """The stream's facts; None where its packets may not be one frame each, or no header says what is in them."""
    count, span = len(packets.pts), int(packets.pts.max() - packets.pts.min())
    mean_rate = Fraction((count - 1) * _NANOSECONDS, span * time_scale) if span else Fraction(0)
    stream = StreamInfo(
        codec=track.codec,
        codec_configs=(track.config,),
        time_base=Fraction(time_scale, _NANOSECONDS),
        width=track.width,
        height=track.height,
        reorder_depth=reorder_depth(packets.pts),
        **{"frame_rate": mean_rate} | track.facts,
    )
    if track.codec in _PICTURE_FROM_PACKET:
        first = source.read(int(packets.offset[0]), min(int(packets.size[0]), LONGEST_KEYFRAME_HEADER))
        picture = keyframe_format(track.codec, first)
    else:
        picture = picture_format(stream)
    if picture is None:
        return stream if track.codec in _PICTURE_FROM_DECODER else None
    if not picture.frames_only:
        return None
    ranges = {True: "full", False: "limited", None: stream.color_range}
    return replace(
        stream,
        width=picture.width,
        height=picture.height,
        bit_depth=picture.bit_depth,
        chroma=picture.chroma,
        color_matrix=stream.color_matrix if picture.color_matrix == _UNSPECIFIED else picture.color_matrix,
        color_range=ranges[picture.full_range],
    )


def _assemble(source: ByteSource, track: Track, packets: Packets, stream: StreamInfo) -> VideoIndex | None:
    delay = round(Fraction(track.codec_delay, _NANOSECONDS) / stream.time_base)
    pts = packets.pts - delay
    shown = np.flatnonzero(~_hidden(source, track.codec, packets))
    order = shown[np.argsort(pts[shown], kind="stable")]
    if not (np.diff(pts[order]) > 0).all():
        return None  # two frames at one time: only a decode tells what comes of them
    count = len(pts)
    return VideoIndex(
        source=source.name,
        container="matroska,webm",
        method="tables",
        packet_offset=packets.offset,
        packet_size=packets.size.astype(np.int32),
        packet_pts=pts,
        packet_key=np.ones(count, np.bool_) if track.codec in _ONLY_KEYFRAMES else packets.key,
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=order.astype(np.int32),
        frame_pts=pts[order],
        byte_ranges=True,
        stream=stream,
    )


def _hidden(source: ByteSource, codec: str, packets: Packets) -> npt.NDArray[np.bool_]:
    """Packets that show nothing; of most the first byte tells, and only of the others the last one is read."""
    hidden = _hiding_bytes(codec)[packets.first_byte]
    for number in np.flatnonzero(hidden):
        last = source.read(int(packets.offset[number] + packets.size[number]) - 1, 1)[0]
        hidden[number] = hides_frame(codec, int(packets.first_byte[number]), last)
    return hidden


@cache
def _hiding_bytes(codec: str) -> npt.NDArray[np.bool_]:
    return np.array([hides_frame(codec, first, 0) for first in range(256)], np.bool_)
