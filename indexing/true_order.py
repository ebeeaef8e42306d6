"""Replace the frames of a video whose container gives wrong times by those of a full decode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from videoloader.errors import DecodeError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.bitstream.mpeg4_headers import LARGEST_UNCODED, find_layer
from videoloader.indexing.bitstream.parameter_sets import WITH_PARAMETER_SETS
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.libav import index_by_decoding
from videoloader.indexing.packet_times import packet_times, reorder_depth
from videoloader.indexing.sources.base import ByteSource


def decoded_if_uncoded(index: VideoIndex, source: ByteSource) -> VideoIndex | None:
    """Return the index of a decode if packets of MPEG-4 may hold pictures that are not coded; else None.

    It is also None for a damaged video without B pictures, whose tables tell the order of its pictures.

    Such a packet (vop_coded is 0, ISO/IEC 14496-2, 6.2.5) gives no frame. DivX puts one behind each packet that holds
    two pictures, and copies of its AVI files to other containers keep them.

    Raises:
        DecodeError: the video is damaged, and nobody can tell in which order its pictures are shown.
    """
    if index.stream.codec != "mpeg4" or (index.packet_size > LARGEST_UNCODED).all():
        return None
    try:
        return index_by_decoding(source)
    except DecodeError as error:
        raise_of_handler(error)
        layer = find_layer(index.stream.codec_configs[0])
        if layer is None or layer.late:
            raise
        return None


def with_decoded_frames(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index with the frames of a full decode, in its order; the decode's own index if packets differ."""
    try:
        decoded = index_by_decoding(source, may_be_cut_off=False)
    except DecodeError as error:
        raise_of_handler(error)
        return index  # damaged: keep the frames of the container's tables
    return with_frames_of(decoded, index)


def with_frames_of(decoded: VideoIndex, index: VideoIndex) -> VideoIndex:
    """Return the index with the frames of a decode, in its order; the decode's own index if packets differ.

    Args:
        decoded: the index of the decode.
        index: made from a container's tables.
    """
    packets = packets_of(decoded, index)
    if packets is None:
        return decoded
    frame_packet = packets[decoded.frame_packet].astype(np.int32)
    # For packets that are decoded but not shown, keep what the container says.
    key = index.packet_key.copy()
    key[frame_packet] = decoded.packet_key[decoded.frame_packet]
    return with_sets_met(with_frames(index, frame_packet, decoded).with_keyframes(key), decoded, packets)


def packets_of(decoded: VideoIndex, index: VideoIndex) -> npt.NDArray[np.int64] | None:
    """Match the packets of a decode to those of an index by their offsets, int64[P]; None if that is ambiguous."""
    number = {offset: packet for packet, offset in enumerate(index.packet_offset.tolist())}
    packets = np.array([number.get(offset, -1) for offset in decoded.packet_offset.tolist()])
    clear = decoded.byte_ranges and packets.min() >= 0 and len(number) == len(index.packet_offset)
    return packets if clear else None


def with_sets_met(index: VideoIndex, decoded: VideoIndex, packets: npt.NDArray[np.int64]) -> VideoIndex:
    """Return the index with the configurations of a decode, which has also found the parameter sets inside GOPs.

    Args:
        index: made from a container's tables.
        decoded: the index of the decode.
        packets: int64[P], the packet of the index for each of the decode.
    """
    # For other sources, all packets are examined anyway.
    headers_only = index.stream.codec in WITH_PARAMETER_SETS and index.byte_ranges
    if not headers_only or (packets[1:] <= packets[:-1]).any():
        return index
    before = np.searchsorted(packets, np.arange(len(index.packet_size)), "right") - 1
    stream = replace(index.stream, codec_configs=decoded.stream.codec_configs)
    return replace(index, stream=stream, packet_config=decoded.packet_config[np.maximum(before, 0)])


def with_frames(index: VideoIndex, frame_packet: npt.NDArray[np.int32], decoded: VideoIndex) -> VideoIndex:
    """Return the index with the frames of a decode.

    Args:
        index: made from a container's tables.
        frame_packet: int32[N], the packet of this index from which each of these frames is decoded.
        decoded: the index of the decode.
    """
    pts = packet_times(frame_packet, decoded.frame_pts, len(index.packet_size))
    return replace(
        index,
        method="decoded",
        packet_pts=pts,
        frame_packet=frame_packet,
        frame_pts=decoded.frame_pts,
        stream=replace(index.stream, reorder_depth=reorder_depth(pts), size_varies=decoded.stream.size_varies),
    )
