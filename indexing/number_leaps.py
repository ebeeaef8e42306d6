"""Detect H.264 recovery points behind a leap in picture numbers, where decoding cannot start.

libavcodec invents the pictures that seem to be missing, and these shift what later pictures refer to, until a decoder
has got as many others as it can hold. A decoder that starts at the recovery point has invented nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.frame_num_gaps import FrameNumGaps
from videoloader.indexing.bitstream.h264_slices import SliceReader
from videoloader.indexing.bitstream.nal import H264_IDR, MOST_HELD
from videoloader.indexing.bitstream.picture_counts import numbers_leap
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.base import ByteSource, read_starts

# Packets before a recovery point that are examined first; more if too few of them are reference pictures.
_LOOKED_AT = 2 * MOST_HELD
# Bytes of a packet that usually contain the start of its first slice.
_HEAD = 256


def looked_at_for(recovery_points: int) -> int:
    """Return how many packets are examined for this many recovery points, in all but rare files."""
    return recovery_points * _LOOKED_AT


def points_behind_leaps(index: VideoIndex, source: ByteSource, recovery_points: list[int]) -> list[int]:
    """Return those of several recovery points that ``is_behind_leap``. Each packet before them is read once.

    Args:
        index, source: as in ``is_behind_leap``.
        recovery_points: numbers of the packets, in order.

    Raises:
        SourceError: the source cannot be read.
    """
    try:
        unsure = _not_plainly_sound(index, source, recovery_points) if recovery_points else []
    except ValueError:
        unsure = recovery_points
    return [packet for packet in unsure if is_behind_leap(index, source, packet)]


def _not_plainly_sound(index: VideoIndex, source: ByteSource, recovery_points: list[int]) -> list[int]:
    """Return those recovery points for which more must be looked at to know that nothing leaps before them.

    If no number leaps in a run of packets, none leaps in a part of it, wherever that begins. It only remains to find
    enough reference pictures, or an IDR picture, among the packets before each point.

    Raises:
        ValueError: headers are of a rarer kind, or parameter sets change.
    """
    looked_at = np.zeros(len(index.packet_size), np.bool_)
    begins = [max(packet - _LOOKED_AT, 0) for packet in recovery_points]
    for begin, packet in zip(begins, recovery_points, strict=True):
        looked_at[begin : packet + 1] = True
    packets = looked_at.nonzero()[0]
    configs = index.packet_config[packets]
    if np.count_nonzero(configs != configs[0]):
        raise ValueError("configurations that change")
    slices = SliceReader(index.stream.codec_configs[configs[0]])
    offsets, sizes = index.packet_offset[packets].tolist(), index.packet_size[packets].tolist()
    known, headers, numbers, size = slices.read_all(
        read_starts(source, offsets, sizes, slices.usual_size),
        lambda number: source.read(offsets[number], min(sizes[number], _HEAD)),
    )
    if np.count_nonzero(_go_on(packets) & ~known):
        raise ValueError("packets without a slice in their first bytes")
    packets = packets[known]
    is_reference, is_idr = headers & 0x60 != 0, headers & 31 == H264_IDR
    restarts = is_idr & is_reference
    if np.count_nonzero(numbers_leap(numbers, size, ~_go_on(packets), restarts, is_reference)):
        return recovery_points
    # Reference pictures before each packet, and after the last; an IDR picture is enough alone.
    counts = np.append(0, (is_reference + MOST_HELD * restarts).cumsum())
    since, until = packets.searchsorted(begins), packets.searchsorted(recovery_points) + 1
    few = (counts[until] - counts[since] <= MOST_HELD).tolist()
    return [packet for packet, begin, unsure in zip(recovery_points, begins, few, strict=True) if begin and unsure]


def _go_on(packets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which packets follow the one before them in the list."""
    return np.append(False, packets[1:] == packets[:-1] + 1)


def is_behind_leap(index: VideoIndex, source: ByteSource, packet: int) -> bool:
    """Whether there is a leap in picture numbers among the reference pictures up to a recovery point.

    Args:
        index: index of H.264, with packets that are byte ranges.
        source: source of the same video.
        packet: number of the recovery point.

    Raises:
        SourceError: the source cannot be read.
    """
    looked_at = _LOOKED_AT
    while True:
        first = max(packet - looked_at, 0)
        leaps, references = _look(index, source, first, packet)
        if leaps or references > MOST_HELD or not first:
            return leaps
        looked_at *= 2


def _look(index: VideoIndex, source: ByteSource, first: int, last: int) -> tuple[bool, int]:
    """Return whether the last packet is behind a leap, and the reference pictures since the first or an IDR picture."""
    numbers: FrameNumGaps | None = None
    config, references, since = -1, 0, -1
    offsets, sizes = index.packet_offset[first : last + 1].tolist(), index.packet_size[first : last + 1].tolist()
    starts = read_starts(source, offsets, sizes, _HEAD)
    for packet, start in enumerate(starts, first):
        if index.packet_config[packet] != config:
            config = int(index.packet_config[packet])
            numbers = FrameNumGaps(index.stream.codec_configs[config])
        assert numbers is not None
        leaps = numbers.show_missing(start)
        if numbers.restarts:
            references, since = 2 * MOST_HELD, -1
        references += numbers.is_reference
        if leaps:
            since = references
    return since >= 0 and references - since <= MOST_HELD, references
