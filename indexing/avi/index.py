"""Index AVI files from their own tables, and order their frames by the codec's headers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from videoloader.indexing.avi.chunks import Chunks, find_chunks
from videoloader.indexing.avi.codecs import codec_of, is_shown_when_decoded
from videoloader.indexing.avi.header import read_header
from videoloader.indexing.avi.heads import ChunkHeads
from videoloader.indexing.avi.streams import describe_stream
from videoloader.indexing.bitstream.h264_order import h264_order
from videoloader.indexing.bitstream.intra_pictures import HEAD_READERS
from videoloader.indexing.bitstream.mpeg4_order import mpeg4_order
from videoloader.indexing.bitstream.picture_order import PictureOrder
from videoloader.indexing.bitstream.random_access import is_intra_only, is_random_access
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.packet_times import packet_times, reorder_depth
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.stream_info import StreamInfo

# libavformat counts the last frame's duration differently if time units are shorter.
_SHORTEST_UNIT = Fraction(1, 1000)
_LARGEST_RATIO = (1 << 31) - 1


def index_avi(source: ByteSource) -> VideoIndex | None:
    """Index the file's video stream; None if only libavformat can read it.

    AVI has no presentation times. The order of frames comes from the codec's own headers. Their times are those that
    libavformat makes up: the times of packets in rising order.

    Left to libavformat: several video streams, DV type 1, codecs that are unknown here, indexes that contradict the
    chunks, and streams whose headers do not determine what a decoder outputs.
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
    order = _find_order(info, chunks, heads)
    if order is None or (info.time_base <= _SHORTEST_UNIT and order.late.any()):
        return None
    return _assemble(source, chunks, order, replace(info, stream_number=number))


def _find_order(info: StreamInfo, chunks: Chunks, heads: ChunkHeads) -> PictureOrder | None:
    config = info.codec_configs[0]
    if info.codec == "mpeg4":
        return mpeg4_order(config, info.codec_tag, heads)
    if info.codec == "h264":
        return h264_order(config, heads)
    key = np.ones_like(chunks.key) if is_intra_only(info.codec) else chunks.key
    if info.codec in HEAD_READERS:
        try:
            key = np.array([is_random_access(info.codec, config, head) for head in heads], np.bool_)
            if not all(is_shown_when_decoded(info.codec, head) for head in heads):
                return None
        except ValueError:
            return None
    return PictureOrder(np.arange(len(key)), key, np.zeros_like(key)) if key[0] else None


def _assemble(source: ByteSource, chunks: Chunks, order: PictureOrder, info: StreamInfo) -> VideoIndex:
    count = len(chunks.size)
    # libavformat gives a frame that is shown late the time of the next such packet.
    held = order.late.nonzero()[0]
    shown = chunks.time.copy()
    shown[held[:-1]] = chunks.time[held[1:]]
    shown[held[-1:]] = chunks.time[-1] + 1
    frame_pts = np.sort(shown[order.frames])
    packet_pts = packet_times(order.frames, frame_pts, count)
    return VideoIndex(
        source=source.name,
        container="avi",
        # Frames whose bytes are in two packets are read like those of streams that only a decode could index.
        method="decoded" if order.packed else "tables",
        packet_offset=chunks.offset,
        packet_size=chunks.size.astype(np.int32),
        packet_pts=packet_pts,
        packet_key=order.keys,
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=order.frames.astype(np.int32),
        frame_pts=frame_pts,
        byte_ranges=True,
        keys_from="headers" if info.codec in HEAD_READERS else "container",
        stream=replace(info, reorder_depth=reorder_depth(packet_pts)),
    )
