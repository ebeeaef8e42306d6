"""Detect H.264 recovery points behind a leap in picture numbers, where decoding cannot start.

libavcodec invents the pictures that seem to be missing, and these shift what later pictures refer to, until a decoder
has got as many others as it can hold. A decoder that starts at the recovery point has invented nothing.
"""

from __future__ import annotations

from videoloader.indexing.bitstream.frame_numbers import FrameNumbers
from videoloader.indexing.bitstream.h264_slices import SliceReader
from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.sources.base import read_starts

# Packets before a recovery point that are examined first; more if too few of them are reference pictures.
_LOOKED_AT = 2 * MOST_HELD
# Bytes of a packet that usually contain the start of its first slice.
_HEAD = 256
_IDR = 5  # nal_unit_type of ITU-T H.264, table 7-1


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
    runs: list[list[int]] = []
    for packet in recovery_points:
        if runs and packet - _LOOKED_AT <= runs[-1][-1]:
            runs[-1].append(packet)
        else:
            runs.append([packet])
    unsure = [packet for run in runs for packet in _without_proof(index, source, run)]
    return [packet for packet in unsure if is_behind_leap(index, source, packet)]


def _without_proof(index: VideoIndex, source: ByteSource, run: list[int]) -> list[int]:
    """Return those of some recovery points for which more must be looked at to know that nothing leaps before them.

    If no number leaps in the run of packets up to the last point, none leaps in a part of it, wherever that begins. It
    only remains to find enough reference pictures, or an IDR picture, among the packets before each point.
    """
    first, last = max(run[0] - _LOOKED_AT, 0), run[-1]
    configs = index.packet_config[first : last + 1]
    if (configs != configs[0]).any():
        return run
    slices = SliceReader(index.stream.codec_configs[configs[0]])
    offsets, sizes = index.packet_offset[first : last + 1].tolist(), index.packet_size[first : last + 1].tolist()
    bits = before = reference = -1
    counts, count = [0], 0  # reference pictures in the packets before each one
    for start in read_starts(source, offsets, sizes, _HEAD):
        try:
            header, value, sps, left = slices.read(start)
        except ValueError:
            return run
        if sps.frame_num_bits != bits:
            if bits >= 0:
                return run
            bits = sps.frame_num_bits
        number = value >> left - bits & (1 << bits) - 1
        is_reference = header & 0x60
        if is_reference and header & 31 == _IDR:
            count += MOST_HELD
        elif before >= 0 and ((number - before) % (1 << bits) > 1 or (number - reference) % (1 << bits) > 1):
            return run
        if is_reference or before < 0:
            reference = number
        if is_reference:
            count += 1
        before = number
        counts.append(count)
    if slices.sets_changed:
        return run
    looked_at_from = {packet: max(packet - _LOOKED_AT, 0) for packet in run}
    return [
        packet
        for packet, begin in looked_at_from.items()
        if begin and counts[packet - first + 1] - counts[begin - first] <= MOST_HELD
    ]


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
