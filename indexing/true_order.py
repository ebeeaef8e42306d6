"""The frames of a video whose container's times are wrong: what a full decode says, in the container's own tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from videoloader.errors import DecodeError
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.libav import index_by_decoding, packet_times
from videoloader.indexing.reordering import reorder_depth
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.wrong_times import times_are_wrong


def with_true_order(
    index: VideoIndex,
    source: ByteSource,
    dts: npt.NDArray[np.int64] | None = None,
    order: npt.NDArray[np.int64] | None = None,
) -> VideoIndex:
    """The index; where its times are seen to be wrong, with the frames that a full decode gives, in its order.

    Args:
        index, source, dts, order: as for ``times_are_wrong``.
    """
    return with_decoded_frames(index, source) if times_are_wrong(index, source, dts, order) else index


def with_decoded_frames(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """The index with the frames that a full decode gives, in its order."""
    try:
        decoded = index_by_decoding(source)
    except DecodeError:
        return index  # damaged: what a decode cannot tell stays as the container says
    return _with_frames_of(decoded, index)


def _with_frames_of(decoded: VideoIndex, index: VideoIndex) -> VideoIndex:
    """An index of a container's tables with the frames of a decode; the decode's own where packets are not the same."""
    number = {offset: packet for packet, offset in enumerate(index.packet_offset.tolist())}
    packets = [number.get(offset, -1) for offset in decoded.packet_offset.tolist()]
    if not decoded.byte_ranges or -1 in packets or len(number) < len(index.packet_offset):
        return decoded
    frame_packet = np.array(packets, np.int32)[decoded.frame_packet]
    # Of packets that are decoded and not shown the container's word stands.
    key = index.packet_key.copy()
    key[frame_packet] = decoded.packet_key[decoded.frame_packet]
    pts = packet_times(frame_packet, decoded.frame_pts, len(key))
    return replace(
        index,
        method="decoded",
        packet_pts=pts,
        frame_packet=frame_packet,
        frame_pts=decoded.frame_pts,
        stream=replace(index.stream, reorder_depth=reorder_depth(pts), size_varies=decoded.stream.size_varies),
    ).with_keyframes(key)
