"""Lies of AVI files: the index's keyframe flags, its order, what the headers say of the stream."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from lies.registry import Rng, few, lie

_KEY = 0x10


def _chunks(data: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """(name, start of the payload, stop) of chunks; of a list the name is what it lists."""
    while start + 8 <= stop:
        name, size = struct.unpack_from("<4sI", data, start)
        end = min(start + 8 + size, stop)
        if name in (b"LIST", b"RIFF"):
            yield data[start + 8 : start + 12], start + 12, end
        else:
            yield name, start + 8, end
        start += 8 + size + (size & 1)


def _find(data: bytes, *path: bytes) -> tuple[int, int] | None:
    start, stop = 0, len(data)
    for name in path:
        found = next(((begin, end) for kind, begin, end in _chunks(data, start, stop) if kind == name), None)
        if found is None:
            return None
        start, stop = found
    return start, stop


def _flagged(data: bytes, choose: Callable[[int], int]) -> bytes | None:
    index = _find(data, b"AVI ", b"idx1")
    if index is None:
        return None
    changed = bytearray(data)
    for at in range(index[0], index[1] - 15, 16):
        if data[at + 2 : at + 4] in (b"dc", b"db"):
            flags = struct.unpack_from("<I", data, at + 4)[0]
            struct.pack_into("<I", changed, at + 4, choose(flags))
    return bytes(changed)


@lie("avi")
def idx1_all_key(data: bytes, rng: Rng) -> bytes | None:
    return _flagged(data, lambda flags: flags | _KEY)


@lie("avi")
def idx1_no_key(data: bytes, rng: Rng) -> bytes | None:
    return _flagged(data, lambda flags: flags & ~_KEY)


@lie("avi")
def idx1_random_key(data: bytes, rng: Rng) -> bytes | None:
    return _flagged(data, lambda flags: flags & ~_KEY | _KEY * int(rng.integers(2)))


@lie("avi")
def idx1_some_key(data: bytes, rng: Rng) -> bytes | None:
    return _flagged(data, lambda flags: flags ^ _KEY * (rng.random() < 0.1))


@lie("avi")
def idx1_removed(data: bytes, rng: Rng) -> bytes | None:
    index = _find(data, b"AVI ", b"idx1")
    return None if index is None else data[: index[0] - 8] + b"JUNK" + data[index[0] - 4 :]


@lie("avi")
def idx1_rows_swapped(data: bytes, rng: Rng) -> bytes | None:
    """The index lists some chunks in another order than they lie in."""
    index = _find(data, b"AVI ", b"idx1")
    if index is None or index[1] - index[0] < 48:
        return None
    changed = bytearray(data)
    for number in few(rng, (index[1] - index[0]) // 16 - 1):
        at = index[0] + 16 * number
        changed[at : at + 32] = changed[at + 16 : at + 32] + changed[at : at + 16]
    return bytes(changed)


@lie("avi")
def idx1_name_changed(data: bytes, rng: Rng) -> bytes | None:
    """A digit of a chunk's stream in the index is another one."""
    index = _find(data, b"AVI ", b"idx1")
    if index is None or index[1] - index[0] < 16:
        return None
    at = index[0] + 16 * int(rng.integers((index[1] - index[0]) // 16)) + int(rng.integers(2))
    return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


@lie("avi")
def idx1_rows_missing(data: bytes, rng: Rng) -> bytes | None:
    """The index ends early."""
    index = _find(data, b"AVI ", b"idx1")
    if index is None:
        return None
    kept = (index[1] - index[0]) // 16 * int(rng.integers(1, 10)) // 10 * 16
    size = struct.pack("<I", kept)
    return data[: index[0] - 4] + size + data[index[0] : index[0] + kept]


@lie("avi")
def stream_format_size(data: bytes, rng: Rng) -> bytes | None:
    """Another picture size in the stream's format than is coded."""
    form = _find(data, b"AVI ", b"hdrl", b"strl", b"strf")
    if form is None or form[1] - form[0] < 12:
        return None
    width, height = struct.unpack_from("<ii", data, form[0] + 4)
    changed = bytearray(data)
    struct.pack_into("<ii", changed, form[0] + 4, width + int(rng.choice([-16, -4, 4, 16])), height)
    return bytes(changed)


@lie("avi")
def stream_rate_wrong(data: bytes, rng: Rng) -> bytes | None:
    head = _find(data, b"AVI ", b"hdrl", b"strl", b"strh")
    if head is None:
        return None
    changed = bytearray(data)
    struct.pack_into("<II", changed, head[0] + 20, int(rng.choice([1, 1001, 0])), int(rng.choice([30000, 15, 1, 0])))
    return bytes(changed)


@lie("avi", damages=True)
def chunks_emptied(data: bytes, rng: Rng) -> bytes | None:
    """Chunks of no bytes in the index: the frame before is shown again."""
    index = _find(data, b"AVI ", b"idx1")
    if index is None:
        return None
    changed = bytearray(data)
    for number in few(rng, (index[1] - index[0]) // 16):
        struct.pack_into("<I", changed, index[0] + 16 * number + 12, 0)
    return bytes(changed)
