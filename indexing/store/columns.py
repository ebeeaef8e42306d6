"""Store a column of integers in few bytes: its trend, and the rest in as many bits as most values need.

A column is stored as its smallest value and the excess over it (frame of reference). If neighbours differ less than all
values do, the differences are stored in that way instead. The excess takes 0, 1, 2, 4, 8, 16, 32 or 64 bits per value;
the upper part of values that need more is kept in a list of exceptions (Zukowski et al., "Super-Scalar RAM-CPU Cache
Compression", ICDE 2006). All arithmetic is modulo 2**64, so every int64 comes back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64)
_WIDTH_CODE, _DELTA, _EXCEPTIONS = 0x07, 0x08, 0x10
# Approximate bits of an exception (the step to its position, and its upper part), and of a list of them.
_EXCEPTION_BITS, _LIST_BITS = 24, 128
# A day and a half at 500 frames per second. A constant column takes no bytes, so bytes cannot bound its length.
LONGEST = 1 << 26


def pack_column(values: Integers) -> bytes:
    """Return the bytes of a column.

    Args:
        values: int64[n].
    """
    count = len(values)
    lowest, highest = (int(values.min()), int(values.max())) if count else (0, 0)
    if lowest == highest:
        return bytes([0]) + pack_number(count) + pack_number(lowest)
    flags, first = 0, b""
    steps = values[1:] - values[:-1]
    smallest, largest = int(steps.min()), int(steps.max())
    if largest - smallest < highest - lowest:
        flags, first = _DELTA, pack_number(int(values[0]))
        values, lowest, highest = steps, smallest, largest
    excess = (values - np.int64(lowest)).view(np.uint64)
    code = _cheapest_width(excess) if highest > lowest else 0
    width = _WIDTHS[code]
    upper = excess >> np.uint64(width) if width < 64 else np.zeros(1, np.uint64)
    places = np.flatnonzero(upper)
    exceptions = b""
    if len(places):
        flags |= _EXCEPTIONS
        exceptions = pack_column(places) + pack_column(upper[places].view(np.int64))
    head = bytes([code | flags]) + pack_number(count) + first + pack_number(lowest)
    return head + _pack_bits(excess, width) + exceptions


def unpack_column(data: bytes, at: int) -> tuple[Integers, int]:
    """Return the column that starts at byte ``at``, and where the next one starts.

    Raises:
        ValueError: the bytes are no column.
        IndexError: the bytes end too early.
    """
    head = data[at]
    is_delta = bool(head & _DELTA)
    count, at = unpack_number(data, at + 1)
    if not is_delta <= count <= LONGEST:
        raise ValueError(f"a column of {count} values")
    first, at = unpack_number(data, at) if is_delta else (0, at)
    lowest, at = unpack_number(data, at)
    if head & (_WIDTH_CODE | _EXCEPTIONS):
        values, at = _unpack_excess(data, at, head, count - is_delta)
        values += lowest
    else:
        values = np.full(count - is_delta, lowest, np.int64)
    if is_delta:
        values = np.concatenate((np.array([first], np.int64), values))
        # Not NumPy's function, which calls it again after a TypeError. That may be the error of a signal's handler.
        values.cumsum(out=values)
    return values, at


def _unpack_excess(data: bytes, at: int, head: int, count: int) -> tuple[Integers, int]:
    width = _WIDTHS[head & _WIDTH_CODE]
    size = (count * width + 7) // 8
    if at + size > len(data):
        raise IndexError("a column ends too early")
    excess = _unpack_bits(np.frombuffer(data, np.uint8, size, at), width, count)
    at += size
    if head & _EXCEPTIONS:
        places, at = unpack_column(data, at)
        upper, at = unpack_column(data, at)
        if len(places) != len(upper) or not len(places) or places.min() < 0 or places.max() >= count:
            raise ValueError("exceptions that do not fit their column")
        excess[places] |= upper << width
    return excess, at


def _cheapest_width(excess: npt.NDArray[np.uint64]) -> int:
    """Return the number in ``_WIDTHS`` of the width that takes the fewest bits, including its exceptions."""
    # Rounding to float64 may make a number look one bit longer than it is, which costs no more than that bit.
    needed = np.bincount(np.frexp(excess.astype(np.float64))[1], minlength=66)
    over = len(excess) - np.cumsum(needed)
    best, cost = 0, len(excess) * 65
    for code, width in enumerate(_WIDTHS):
        exceptions = int(over[width])
        bits = len(excess) * width + (exceptions * _EXCEPTION_BITS + _LIST_BITS if exceptions else 0)
        # Exceptions are columns too, so each list must be shorter than the last.
        if bits < cost and exceptions <= len(excess) // 4:
            best, cost = code, bits
    return best


def _pack_bits(excess: npt.NDArray[np.uint64], width: int) -> bytes:
    """Pack the lowest ``width`` bits of each value, the first value in the lowest bits of the first byte."""
    if width == 0:
        return b""
    if width >= 8:
        return excess.astype(f"<u{width // 8}").tobytes()
    share = 8 // width
    small = np.zeros(-(-len(excess) // share) * share, np.uint8)
    small[: len(excess)] = excess.astype(np.uint8) & ((1 << width) - 1)
    joined = small[::share].copy()
    for part in range(1, share):
        joined |= small[part::share] << (part * width)
    return joined.tobytes()


def _unpack_bits(packed: npt.NDArray[np.uint8], width: int, count: int) -> Integers:
    if width == 0:
        return np.zeros(count, np.int64)
    if width >= 8:
        return packed.view(f"<u{width // 8}").astype(np.int64)
    if width == 1:
        return np.unpackbits(packed, count=count, bitorder="little").astype(np.int64)
    share, mask = 8 // width, (1 << width) - 1
    values = np.empty(len(packed) * share, np.int64)
    for part in range(share):
        values[part::share] = packed >> (part * width) & mask
    return values[:count]


def pack_number(value: int) -> bytes:
    """Pack an integer of up to 128 bits: zigzag, then seven bits per byte, lowest first (LEB128)."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    packed = bytearray()
    while rest > 0x7F:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    packed.append(rest)
    return bytes(packed)


def unpack_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer that starts at byte ``at``, and where the next value starts.

    Raises:
        IndexError: the bytes end too early.
        ValueError: the integer is longer than any that is stored.
    """
    byte = data[at]
    at += 1
    rest, shift = byte & 0x7F, 7
    while byte & 0x80:
        byte = data[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        shift += 7
        if shift > 128:
            raise ValueError("a number without end")
    return (rest >> 1) ^ -(rest & 1), at
