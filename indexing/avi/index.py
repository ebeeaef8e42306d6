"""Index of an AVI file from its own tables, and of the order of its frames from their headers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.avi.chunks import Chunks, find_chunks
from videoloader.indexing.avi.codecs import codec_of, is_shown_when_decoded
from videoloader.indexing.avi.header import read_header
from videoloader.indexing.avi.heads import ChunkHeads
from videoloader.indexing.avi.streams import describe_stream
from videoloader.indexing.bitstream.h264_order import h264_order
from videoloader.indexing.bitstream.intra_pictures import HEAD_READERS
from videoloader.indexing.bitstream.mpeg2_order import mpeg2_order
from videoloader.indexing.bitstream.mpeg4_order import mpeg4_order
from videoloader.indexing.bitstream.picture_order import PictureOrder
from videoloader.indexing.bitstream.random_access import is_intra_only, is_random_access
from videoloader.indexing.index import StreamInfo, VideoIndex
from videoloader.indexing.reordering import reorder_depth
from videoloader.indexing.sources import ByteSource

# libavformat counts the last frame's duration otherwise where there are more time units a second.
_SHORTEST_UNIT = Fraction(1, 1000)
_LARGEST_RATIO = (1 << 31) - 1


class _Frames(NamedTuple):
    """Display order: for each packet its time and whether decoding can start there, and each frame's packet."""

    packet_pts: npt.NDArray[np.int64]
    key: npt.NDArray[np.bool_]
    packet: npt.NDArray[np.int64]
    pts: npt.NDArray[np.int64]
    packed: bool


def index_avi(source: ByteSource) -> VideoIndex | None:
    """The index of the file's video stream, or None where only libavformat can read it.

    AVI has no presentation times. The order of frames comes from the codec's own headers; their times are the ones
    that libavformat makes up: the times of packets, in rising order.

    Left to libavformat: several video streams, DV type 1, codecs not known here, indexes that contradict the chunks,
    and streams whose headers do not settle what a decoder gives out.
    """
    header = read_header(source)
    if header is None:
        return None
    videos = [number for number, stream in enumerate(header.streams) if stream.kind == b"vids"]
    picture = header.streams[videos[0]].picture_header() if len(videos) == 1 else None
    if picture is None or not (codec := codec_of(picture.compression, picture.bits)):
        return None
    number, stream = videos[0], header.streams[videos[0]]
    time_base = Fraction(stream.scale, stream.rate)
    if max(time_base.numerator, time_base.denominator) > _LARGEST_RATIO:
        return None
    chunks = find_chunks(source, header, number)
    if chunks is None or not len(chunks.size) or chunks.size.max() >= 1 << 31:
        return None
    heads = ChunkHeads(source, chunks, number)
    info = describe_stream(source, codec, stream, picture, heads.whole(0))
    if info is None:
        return None
    frames = _find_frames(info, chunks, heads)
    return None if frames is None else _assemble(source, chunks, frames, replace(info, stream_number=number))


def _find_frames(info: StreamInfo, chunks: Chunks, heads: ChunkHeads) -> _Frames | None:
    config = info.codec_configs[0]
    if info.codec in ("mpeg4", "h264", "mpeg2video"):
        if info.codec == "mpeg4":
            order = mpeg4_order(config, info.codec_tag, heads)
        else:
            order = h264_order(config, heads) if info.codec == "h264" else mpeg2_order(heads)
        return None if order is None else _in_order(order, chunks.time, info.time_base)
    key = np.ones_like(chunks.key) if is_intra_only(info.codec) else chunks.key
    if info.codec in HEAD_READERS:
        try:
            key = np.array([is_random_access(info.codec, config, head) for head in heads], np.bool_)
            if not all(is_shown_when_decoded(info.codec, head) for head in heads):
                return None
        except ValueError:
            return None
    if not key[0]:
        return None
    return _Frames(chunks.time, key, np.arange(len(key)), chunks.time, False)


def _in_order(order: PictureOrder, time: npt.NDArray[np.int64], time_base: Fraction) -> _Frames | None:
    late, packet = order.late, order.frames
    if time_base <= _SHORTEST_UNIT and late.any():
        return None
    # libavformat gives a frame that is shown late the time of the next such packet.
    held = late.nonzero()[0]
    shown = time.copy()
    shown[held[:-1]] = time[held[1:]]
    shown[held[-1:]] = time[-1] + 1
    pts = np.sort(shown[packet])
    packet_pts = np.full(len(time), pts[0])
    packet_pts[packet] = pts
    if len(packet) < len(time):
        # Packets without a frame count as shown with the frame before them.
        with_frame = np.zeros(len(time), np.int64)
        with_frame[packet] = packet
        packet_pts = packet_pts[np.maximum.accumulate(with_frame)]
    return _Frames(packet_pts, order.keys, packet, pts, order.packed)


def _assemble(source: ByteSource, chunks: Chunks, frames: _Frames, info: StreamInfo) -> VideoIndex:
    count = len(chunks.size)
    return VideoIndex(
        source=source.name,
        container="avi",
        # Frames whose bytes stand in two packets are read as those of streams that only a decode could index.
        method="decoded" if frames.packed else "tables",
        packet_offset=chunks.offset,
        packet_size=chunks.size.astype(np.int32),
        packet_pts=frames.packet_pts,
        packet_key=frames.key,
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=frames.packet.astype(np.int32),
        frame_pts=frames.pts,
        byte_ranges=True,
        keys_from="headers" if info.codec in HEAD_READERS else "container",
        stream=replace(info, reorder_depth=reorder_depth(frames.packet_pts)),
    )
