"""Walk the elements of EBML (RFC 8794), the tree format of Matroska, without trusting their sizes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

EBML, SEGMENT = 0x1A45DFA3, 0x18538067
VOID, CRC32 = 0xEC, 0xBF
# An id has at most four bytes, a size at most eight.
LONGEST_HEADER = 12
# Length of a variable-size integer by its first byte; 9 if it is not valid.
VINT_LENGTH = bytes(9 - first.bit_length() for first in range(256))
VINT_MASK = (0, *((1 << 7 * length) - 1 for length in range(1, 9)))


class MalformedError(ValueError):
    """Elements do not fit together. libavformat decides what can be saved of such a file."""


class Element(NamedTuple):
    """An element: its id with the length marker, and the range of its payload; ``stop`` is None for an unknown size."""

    id: int
    start: int
    stop: int | None


def read_header(data: bytes, at: int, base: int = 0) -> tuple[int, int, int | None]:
    """Return the fields of the Element whose header is at ``data[at:]``, as a plain tuple, which is ten times faster.

    Args:
        data: a buffer.
        at: position of the header in it.
        base: position of the buffer in the file.

    Raises:
        MalformedError: there is no complete header.
    """
    try:
        size_at = at + VINT_LENGTH[data[at]]
        start = size_at + VINT_LENGTH[data[size_at]]
    except IndexError:
        raise MalformedError(f"an element header is cut off at byte {base + at}") from None
    length = start - size_at
    if size_at - at > 4 or length > 8 or start > len(data):
        raise MalformedError(f"no element header at byte {base + at}")
    size = int.from_bytes(data[size_at:start], "big") & VINT_MASK[length]
    stop = None if size == VINT_MASK[length] else base + start + size
    return int.from_bytes(data[at:size_at], "big"), base + start, stop


def read_vint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-size integer (RFC 8794, 4) without its length marker, and the position after it."""
    length = VINT_LENGTH[data[at]] if at < len(data) else 9
    if length > 8 or at + length > len(data):
        raise MalformedError("a variable-size integer is cut off")
    return int.from_bytes(data[at : at + length], "big") & VINT_MASK[length], at + length


def iterate_elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (id, payload) of the elements that fill a master element's payload, except padding.

    Raises:
        MalformedError: they do not fill it exactly.
    """
    position = 0
    while position < len(data):
        identifier, start, stop = read_header(data, position)
        if stop is None or stop > len(data):
            raise MalformedError(f"element {identifier:X} is longer than the one around it")
        if identifier not in (VOID, CRC32):
            yield identifier, data[start:stop]
        position = stop


def read_uint(payload: bytes) -> int:
    """Return an unsigned integer element."""
    if len(payload) > 8:
        raise MalformedError(f"an integer of {len(payload)} bytes")
    return int.from_bytes(payload, "big")


def read_float(payload: bytes) -> float:
    """Return a float element, which has 0, 4 or 8 bytes."""
    if len(payload) not in (0, 4, 8):
        raise MalformedError(f"a float of {len(payload)} bytes")
    return float(struct.unpack(">f" if len(payload) == 4 else ">d", payload)[0]) if payload else 0.0


def read_string(payload: bytes) -> str:
    """Return a string element up to the first zero byte."""
    return payload.split(b"\0", 1)[0].decode("utf-8", "replace")
