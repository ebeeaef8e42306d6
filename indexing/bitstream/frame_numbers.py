"""Numbers that H.264 pictures have, by which one sees that some are missing (frame_num; ITU-T H.264, 7.4.3)."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from videoloader.indexing.bitstream.h264_parameter_sets import Sps, read_pps, read_sps
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

_SLICE, _IDR_SLICE, _SPS, _PPS = 1, 5, 7, 8
_SLICE_HEAD = 16  # bytes, in which the number stands


class FrameNumbers:
    """Follows the numbers of pictures through all packets of a run to which others may refer.

    A picture has the number that comes after that of the last one before it that is referred to. Memory management
    operation 5, which sets numbers back, looks as if pictures were missing.

    Args:
        record: the configuration record of the packets.

    Example:
        >>> numbers = FrameNumbers(avcc)  # doctest: +SKIP
        >>> [numbers.show_missing(payload) for payload in payloads]  # doctest: +SKIP
        [False, False, True, False]
    """

    def __init__(self, record: bytes) -> None:
        self._length_size, self._sps_of = _sets_of(record)
        self._last: int | None = None

    def show_missing(self, payload: bytes | memoryview) -> bool:
        """Take in the next packet; whether pictures that were referred to are missing before it.

        False where that cannot be told, or where the stream is allowed to leave out numbers.
        """
        start = self._length_size
        if not 0 < start < len(payload) or payload[start] & 31 not in (_SLICE, _IDR_SLICE):
            units = (start for start, _ in iterate_nals(payload, self._length_size))
            start = next((start for start in units if payload[start] & 31 in (_SLICE, _IDR_SLICE)), len(payload))
        head = bytes(payload[start + 1 : start + 1 + _SLICE_HEAD]).replace(b"\0\0\3", b"\0\0")
        # Done for each packet, so without a BitReader: three Exp-Golomb codes, of which the third names the sets.
        value, left = int.from_bytes(head, "big"), 8 * len(head)
        code = 0
        for _ in range(3):
            length = 2 * (left - (value & (1 << left) - 1).bit_length()) + 1
            left -= length
            if left < 0:
                break
            code = (value >> left & (1 << length) - 1) - 1
        sps = self._sps_of.get(code)
        if left < 0 or sps is None or left < sps.frame_num_bits:
            self._last = None
            return False
        number = value >> left - sps.frame_num_bits & (1 << sps.frame_num_bits) - 1
        last, starts = self._last, payload[start] & 31 == _IDR_SLICE
        if payload[start] & 0x60 or last is None:
            self._last = number
        ahead = 0 if starts or last is None else number - last & (1 << sps.frame_num_bits) - 1
        return ahead > 1 and not sps.gaps_allowed


@lru_cache(maxsize=64)
def _sets_of(record: bytes) -> tuple[int, dict[int, Sps]]:
    """How many bytes NAL units' lengths take, and the sequence parameter set of each picture parameter set."""
    found, sps_of = dict[int, Sps](), dict[int, int]()
    for unit in parameter_sets("h264", record):
        with suppress(ValueError):  # one that cannot be read is missed where a slice names it
            if unit[0] & 31 == _SPS:
                sps = read_sps(unit[1:])
                found[sps.number] = sps
            elif unit[0] & 31 == _PPS:
                pps = read_pps(unit[1:])
                sps_of[pps.number] = pps.sps
    return nal_length_size("h264", record), {pps: found[sps] for pps, sps in sps_of.items() if sps in found}
