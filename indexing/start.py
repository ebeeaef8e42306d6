"""Remove frames at the start of a video that a decoder cannot make, since they come before the first true keyframe."""

from __future__ import annotations

from dataclasses import replace

import av
import av.error
import numpy as np

from videoloader.errors import DecodeError, IndexingError
from videoloader.indexing.bitstream.random_access import is_skipped_leading
from videoloader.indexing.decoder import make_packet, open_decoder
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import is_random_access_at, read_packet
from videoloader.indexing.limits import count_decoded_packet
from videoloader.indexing.sources.base import ByteSource

# This many bytes usually show what kind of packet it is.
_PACKET_HEAD = 4 << 10
# Keyframes are no longer checked after the container has wrongly marked packets of this many bytes.
_MOST_FALSE_KEYFRAMES = 64 << 20


def without_lost_frames(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index without those frames at its start that refer to missing pictures.

    A decoder outputs some of the frames before the first true keyframe, in decode or display order, and not others,
    depending on what they refer to. HEVC and VVC say so in the packets' headers. For other codecs only a decode can
    tell, from the first packet to that keyframe.

    Args:
        index: index with packets that are byte ranges.
        source: source of the same video.

    Raises:
        DecodeError: a packet does not decode.
    """
    keyframe, false_keyframes = _first_true_keyframe(index, source)
    if not len(index) or ((not keyframe or keyframe <= index.frame_packet.min()) and _shown_first(index, keyframe)):
        return index
    last = index.packet_pts[: keyframe + 1].max() if keyframe < len(index.packet_pts) else index.packet_pts.max()
    if index.stream.codec in ("hevc", "vvc") and keyframe <= index.frame_packet.min():
        came_out = _shown_leading(index, source, int(last))
    else:
        came_out = _decode_until(index, source, int(last))
    safe = (index.frame_packet >= keyframe) & (index.packet_pts[index.frame_packet] >= last)
    kept = safe | np.isin(index.frame_packet, list(came_out))
    index = replace(index, frame_packet=index.frame_packet[kept], frame_pts=index.frame_pts[kept])
    return index.without_keyframe(false_keyframes)


def _first_true_keyframe(index: VideoIndex, source: ByteSource) -> tuple[int, list[int]]:
    """Return the first packet at which decoding can start, and the false keyframes before it."""
    if index.keys_from != "container":
        return index.first_keyframe, []
    false: list[int] = []
    looked_at = 0
    for packet in map(int, index.packet_key.nonzero()[0]):
        if any(is_random_access_at(index, source, packet, most) is not False for most in (_PACKET_HEAD, 1 << 31)):
            return packet, false
        false.append(packet)
        looked_at += 1024 + int(index.packet_size[packet])
        if looked_at > _MOST_FALSE_KEYFRAMES:
            break
    return len(index.packet_key), false


def _shown_first(index: VideoIndex, keyframe: int) -> bool:
    pts = index.packet_pts
    return bool(pts.argmin() == keyframe or (pts[index.frame_packet] >= pts[keyframe]).all())


def _shown_leading(index: VideoIndex, source: ByteSource, pts: int) -> set[int]:
    """Return the packets shown before ``pts`` whose headers say that they need nothing before the first keyframe."""
    leading = index.frame_packet[index.packet_pts[index.frame_packet] < pts]
    return {
        packet
        for packet in np.unique(leading).tolist()
        if not is_skipped_leading(index.stream.codec, index.config_at(packet), read_packet(index, source, packet))
    }


def _decode_until(index: VideoIndex, source: ByteSource, last_pts: int) -> set[int]:
    """Return the packets whose frames come out of a decoder from the first packet on, up to one after ``last_pts``."""
    came_out: set[int] = set()
    number = fed = 0
    context = open_decoder(index, 0)
    try:
        for number in range(len(index.packet_offset)):
            data = read_packet(index, source, number)
            fed += len(data)
            if fed > source.size:
                raise IndexingError(f"its first {number + 1} packets are more bytes than the file has", index.source)
            count_decoded_packet()
            frames = context.decode(make_packet(index, data, number, number - 1 if number else None))
            numbers = [frame.pts for frame in frames if frame.pts is not None]
            came_out.update(numbers)
            if any(index.packet_pts[number] > last_pts for number in numbers):
                return came_out
        came_out.update(frame.pts for frame in context.decode(None) if frame.pts is not None)
    except av.error.FFmpegError as error:
        raise DecodeError(f"packet {number} does not decode: {error.strerror}", index.source) from None
    return came_out
