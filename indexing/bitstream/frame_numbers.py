"""Numbers that H.264 pictures have, by which one sees that some are missing (frame_num; ITU-T H.264, 7.4.3)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import SetsByPicture, Sps
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

_SLICE, _IDR_SLICE = 1, 5
# Bytes of a slice in which the number stands, and the bits of them behind what mostly stands before it.
_HEAD, _BEHIND_PREFIX = 8, 48


class _Place(NamedTuple):
    """Where frame_num stands: (word >> shift) & mask."""

    shift: int
    mask: int
    gaps_allowed: bool


class FrameNumbers:
    """Follows the numbers of pictures through all packets of a run to which others may refer.

    A picture has the number that comes after that of the last one before it that is referred to. Memory management
    operation 5, which sets numbers back, looks as if pictures were missing.

    Args:
        record: the configuration record of the packets.

    Example:
        >>> numbers = FrameNumbers(avcc)
        >>> [numbers.show_missing(packets[number]) for number in (0, 5, 6)]
        [False, True, False]
    """

    def __init__(self, record: bytes) -> None:
        self._length_size, self._sps_of, self._known = _sets_of(record)
        self._last: int | None = None

    def show_missing(self, payload: bytes | memoryview) -> bool:
        """Take in the next packet; whether pictures that were referred to are missing before it.

        False where that cannot be told, or where the stream is allowed to leave out numbers.
        """
        start = self._length_size
        if not 0 < start < len(payload) or payload[start] & 31 not in (_SLICE, _IDR_SLICE):
            units = (start for start, _ in iterate_nals(payload, self._length_size))
            start = next((start for start in units if payload[start] & 31 in (_SLICE, _IDR_SLICE)), len(payload))
        # Done for each packet, so without a BitReader: what stands before the number is mostly the same few bits.
        head = bytes(payload[start + 1 : start + 1 + _HEAD])
        if len(head) < _HEAD or b"\0\0\3" in head:
            head = head.replace(b"\0\0\3", b"\0\0").ljust(_HEAD, b"\0")
        word = int.from_bytes(head, "big")
        place = self._known.get(word >> _BEHIND_PREFIX) or self._find(word)
        if place is None:
            self._last = None
            return False
        number = word >> place.shift & place.mask
        last, header = self._last, payload[start]
        if header & 0x60 or last is None:
            self._last = number
        if header & 31 == _IDR_SLICE or last is None:
            return False
        return (number - last & place.mask) > 1 and not place.gaps_allowed

    def _find(self, word: int) -> _Place | None:
        """Where the number stands in the head of a slice; None where that cannot be told."""
        bits = BitReader.raw(word.to_bytes(_HEAD, "big"))
        try:
            bits.ue(), bits.ue()
            sps = self._sps_of.get(bits.ue())
        except ValueError:
            return None
        if sps is None or bits.left < sps.frame_num_bits:
            return None
        place = _Place(bits.left - sps.frame_num_bits, (1 << sps.frame_num_bits) - 1, sps.gaps_allowed)
        if bits.left >= _BEHIND_PREFIX:
            self._known[word >> _BEHIND_PREFIX] = place
        return place


@lru_cache(maxsize=64)
def _sets_of(record: bytes) -> tuple[int, dict[int, Sps], dict[int, _Place]]:
    """How many bytes NAL units' lengths take, the sequence parameter set of each picture parameter set, and what slices
    have shown of where their number stands, by their first bits.
    """
    sets = SetsByPicture()
    sets.take(parameter_sets("h264", record))
    return nal_length_size("h264", record), sets.of, {}
