"""Read the first slice header of H.264 packets (ITU-T H.264, 7.3.3), one after the other or many at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import SetsByPicture, Sps
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets
from videoloader.indexing.bitstream.parameter_sets import is_set, is_slice
from videoloader.indexing.bitstream.picture_counts import SLICE_WINDOW, read_ue, slice_bits, top_bits

# Bytes of a slice header that contain everything read of it, and the number of bytes if there is emulation prevention.
_HEAD, _LONG_HEAD = 12, 48
HEAD_BITS = 8 * _HEAD
# The number of bits that usually contain the first three numbers, and of the bits after those.
_PREFIX = 12
_BEHIND_PREFIX = HEAD_BITS - _PREFIX


class SliceReader:
    """Reads the first slice of one packet after the other, and keeps the parameter sets between them.

    Args:
        record: configuration record of the first packet.

    Attributes:
        sets_changed: whether packets brought other parameter sets than the record.
    """

    def __init__(self, record: bytes) -> None:
        self._length_size = nal_length_size("h264", record)
        self._sets, self._known = _of_record(record)
        self.sets_changed = False

    def read(self, payload: bytes | memoryview) -> tuple[int, int, Sps, int]:
        """Read the beginning of the first slice of the next packet.

        Returns:
            (first byte of its NAL unit, the next HEAD_BITS bits without emulation prevention, the sequence parameter
            set that it names, how many of the bits are left from frame_num on).

        Raises:
            ValueError: the packet has no slice, or one that names missing parameter sets or ends before its frame_num.
        """
        start = self._length_size
        if not 0 < start < len(payload) or payload[start] & 31 not in (1, 5):
            start = self._find(payload)
        head = bytes(payload[start + 1 : start + 1 + _HEAD])
        if len(head) < _HEAD or b"\0\0\3" in head:
            head = bytes(payload[start + 1 : start + 1 + _LONG_HEAD]).replace(b"\0\0\3", b"\0\0")
            head = head[:_HEAD].ljust(_HEAD, b"\0")
        value = int.from_bytes(head, "big")
        # This runs for each packet: the bits before the number are usually the same few.
        sps, left = self._known.get(value >> _BEHIND_PREFIX) or self._read_prefix(value)
        return payload[start], value, sps, left

    @property
    def usual_size(self) -> int:
        """The number of a packet's first bytes that ``read_all`` reads, if the packet begins with a slice."""
        return self._length_size + 1 + SLICE_WINDOW

    def read_all(
        self, starts: Iterable[bytes], payload: Callable[[int], bytes]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8], npt.NDArray[np.int64], int]:
        """Read the beginnings of the first slices of many packets at once.

        Args:
            starts: the first ``usual_size`` bytes of each packet; fewer of a shorter one.
            payload: returns the beginning of the packet of a number, for one that does not begin with a slice.

        Returns:
            (bool[N], the packets that ``read`` would read; of each of these, the first byte of the slice's NAL unit,
            and frame_num; how many values frame_num has).

        Raises:
            ValueError: the units have start codes, parameter sets change, or see ``after_names``.
        """
        if not self._length_size:
            raise ValueError("units with start codes")
        size = self.usual_size
        data = b"".join([start.ljust(size, b"\0") for start in starts])
        rows = np.frombuffer(data, np.uint8).reshape(-1, size)[:, self._length_size :]
        headers, bits = rows[:, 0].copy(), slice_bits(rows[:, 1:].copy())
        kinds = headers & 31
        for number in ((kinds != 1) & (kinds != 5)).nonzero()[0].tolist():
            headers[number] = 0
            with suppress(ValueError):
                headers[number], value, _, _ = self.read(payload(number))
                bits[number] = value >> HEAD_BITS - 64
        if self.sets_changed:
            raise ValueError("parameter sets that change")
        known = headers != 0
        _, bits, sps = after_names(bits[known], self._sets.of.items())
        numbers = top_bits(bits << np.uint64(2 * sps.separate_planes), sps.frame_num_bits)
        return known, headers[known], numbers, 1 << sps.frame_num_bits

    def _find(self, payload: bytes | memoryview) -> int:
        """Return the start of the first slice, after taking in the sets before it."""
        units: list[bytes] = []
        for start, stop in iterate_nals(payload, self._length_size):
            if is_slice("h264", payload[start]):
                if units:
                    before, self._sets = self._sets, SetsByPicture(units, self._sets)
                    if before.of != self._sets.of:
                        self._known, self.sets_changed = {}, True
                return start
            if is_set("h264", payload[start]):
                units.append(bytes(payload[start:stop]))
        raise ValueError("a packet has no picture")

    def _read_prefix(self, value: int) -> tuple[Sps, int]:
        """Return the sequence parameter set that a slice names, and the number of bits left from frame_num on."""
        bits = BitReader.raw(value.to_bytes(_HEAD, "big"))
        bits.ue()  # first_mb_in_slice
        bits.ue()  # slice_type
        sps = self._sets.of.get(bits.ue())
        if sps is None:
            raise ValueError("a slice names a parameter set that is not there")
        named = sps, bits.left - 2 * sps.separate_planes
        if named[1] < sps.frame_num_bits:
            raise ValueError("a slice header ends too early")
        if bits.left >= _BEHIND_PREFIX:
            self._known[value >> _BEHIND_PREFIX] = named
        return named


def after_names(
    bits: npt.NDArray[np.uint64], sets: Collection[tuple[int, Sps]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], Sps]:
    """Read the headers of many slices up to the number of their picture parameter set.

    Args:
        bits: the bits after the first byte of each slice's NAL unit, without emulation prevention.
        sets: the picture parameter sets that there are, and the sequence parameter set that each names.

    Returns:
        (first_mb_in_slice of each, its bits after the number, the sequence parameter set of all).

    Raises:
        ValueError: there is not exactly one sequence parameter set, or slices name missing picture parameter sets.
    """
    sequences = {sps for _, sps in sets}
    first_block, bits = read_ue(bits)
    _, bits = read_ue(bits)  # slice_type
    named, bits = read_ue(bits)
    if len(sequences) != 1 or not np.isin(named, [number for number, _ in sets]).all():
        raise ValueError("slices of several kinds")
    return first_block, bits, sequences.pop()


@lru_cache(maxsize=64)
def _of_record(record: bytes) -> tuple[SetsByPicture, dict[int, tuple[Sps, int]]]:
    """Return the sets of a record, and a cache of which of them slices name, by the slices' first bits."""
    return SetsByPicture(parameter_sets("h264", record)), {}
