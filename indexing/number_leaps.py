"""Detect H.264 recovery points behind a leap in picture numbers, where decoding cannot start.

libavcodec invents the pictures that seem to be missing, and these shift what later pictures refer to, until a decoder
has got as many others as it can hold. A decoder that starts at the recovery point has invented nothing.
"""

from __future__ import annotations

from videoloader.indexing.bitstream.frame_numbers import FrameNumbers
from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.sources.base import read_starts

# Packets before a recovery point that are examined first; more if too few of them are reference pictures.
_LOOKED_AT = 2 * MOST_HELD
# Bytes of a packet that usually contain the start of its first slice.
_HEAD = 256


def looked_at_for(recovery_points: int) -> int:
    """Return how many packets are examined for this many recovery points, in all but rare files."""
    return recovery_points * _LOOKED_AT


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
    numbers: FrameNumbers | None = None
    config, references, since = -1, 0, -1
    offsets, sizes = index.packet_offset[first : last + 1].tolist(), index.packet_size[first : last + 1].tolist()
    starts = read_starts(source, offsets, sizes, _HEAD)
    for packet, start in enumerate(starts, first):
        if index.packet_config[packet] != config:
            config = int(index.packet_config[packet])
            numbers = FrameNumbers(index.stream.codec_configs[config])
        assert numbers is not None
        leaps = numbers.show_missing(start)
        if numbers.restarts:
            references, since = 2 * MOST_HELD, -1
        references += numbers.is_reference
        if leaps:
            since = references
    return since >= 0 and references - since <= MOST_HELD, references
