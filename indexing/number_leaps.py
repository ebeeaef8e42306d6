"""Recovery points of H.264 behind a leap in the numbers of pictures: no starts, though sound by themselves.

libavcodec invents what seems to be missing, and what it has invented shifts what later pictures refer to, until a
decoder has got as many others as it can hold. A decoder that starts at the recovery point has invented nothing.
"""

from __future__ import annotations

from videoloader.indexing.bitstream.frame_numbers import FrameNumbers
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources import ByteSource

# The reference pictures that a decoder of H.264 holds at most (ITU-T H.264, A.3.1: MaxDpbFrames).
MOST_REFERENCES = 16
# Packets before a recovery point that are looked at first; more where too few of them are referred to.
_LOOKED_AT = 2 * MOST_REFERENCES
# Bytes of a packet in which its first slice mostly begins.
_HEAD = 256


def looked_at_for(recovery_points: int) -> int:
    """The number of packets that are looked at for so many recovery points, in all but rare files."""
    return recovery_points * _LOOKED_AT


def is_behind_leap(index: VideoIndex, source: ByteSource, packet: int) -> bool:
    """Whether the numbers of the reference pictures up to a recovery point leap.

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
        if leaps or references > MOST_REFERENCES or not first:
            return leaps
        looked_at *= 2


def _look(index: VideoIndex, source: ByteSource, first: int, last: int) -> tuple[bool, int]:
    """(whether the last packet is behind a leap, reference pictures since the first one or since an IDR picture)."""
    numbers: FrameNumbers | None = None
    config, references, since = -1, 0, -1
    for packet in range(first, last + 1):
        if index.packet_config[packet] != config:
            config = int(index.packet_config[packet])
            numbers = FrameNumbers(index.stream.codec_configs[config])
        assert numbers is not None
        offset, size = index.packet_range(packet)
        leaps = numbers.show_missing(source.read(offset, min(size, _HEAD)))
        if numbers.restarts:
            references, since = 2 * MOST_REFERENCES, -1
        references += numbers.is_reference
        if leaps:
            since = references
    return since >= 0 and references - since <= MOST_REFERENCES, references
