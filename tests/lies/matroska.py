"""Lies of Matroska and WebM files: blocks' flags, times and references, the Cues, the track's entry."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from matroska_writing import BLOCK, BLOCK_GROUP, CLUSTER, CUES, REFERENCE, SEEK_HEAD, SEGMENT, SIMPLE_BLOCK, element

from lies.registry import Rng, few, lie

_TIMESTAMP, _TRACKS, _ENTRY, _VIDEO, _PRIVATE = 0xE7, 0x1654AE6B, 0xAE, 0xE0, 0x63A2
_VOID = 0xEC


class _Element(NamedTuple):
    kind: int
    start: int
    payload: int
    stop: int


def _elements(data: bytes, start: int, stop: int) -> Iterator[_Element]:
    while start + 2 <= stop and data[start]:
        length = 9 - data[start].bit_length()
        kind = int.from_bytes(data[start : start + length], "big")
        at = start + length
        if at >= stop or not data[at]:
            return
        width = 9 - data[at].bit_length()
        size = int.from_bytes(data[at : at + width], "big") & ((1 << 7 * width) - 1)
        payload = at + width
        end = stop if size == (1 << 7 * width) - 1 else payload + size
        if end > stop:
            return
        yield _Element(kind, start, payload, end)
        start = end


def _inside(data: bytes, *path: int) -> Iterator[_Element]:
    """All elements at a path."""
    level = list(_elements(data, 0, len(data)))
    for depth, kind in enumerate(path):
        level = [each for each in level if each.kind == kind]
        if depth < len(path) - 1:
            level = [inner for each in level for inner in _elements(data, each.payload, each.stop)]
    yield from level


def _blocks(data: bytes) -> list[int]:
    """Where the header of each block (after the track's number) stands: two bytes of time, one of flags."""
    simple = [each.payload + 1 for each in _inside(data, SEGMENT, CLUSTER, SIMPLE_BLOCK)]
    grouped = [each.payload + 1 for each in _inside(data, SEGMENT, CLUSTER, BLOCK_GROUP, BLOCK)]
    return sorted(simple + grouped)


def _flags(data: bytes, choose: Callable[[int], int]) -> bytes | None:
    changed = bytearray(data)
    for each in _inside(data, SEGMENT, CLUSTER, SIMPLE_BLOCK):
        at = each.payload + 3
        changed[at] = choose(data[at])
    return bytes(changed)


@lie("mkv")
def blocks_all_key(data: bytes, rng: Rng) -> bytes | None:
    return _flags(data, lambda flags: flags | 0x80)


@lie("mkv")
def blocks_no_key(data: bytes, rng: Rng) -> bytes | None:
    return _flags(data, lambda flags: flags & 0x7F)


@lie("mkv")
def blocks_random_key(data: bytes, rng: Rng) -> bytes | None:
    return _flags(data, lambda flags: flags & 0x7F | 0x80 * int(rng.integers(2)))


@lie("mkv")
def blocks_some_key(data: bytes, rng: Rng) -> bytes | None:
    return _flags(data, lambda flags: flags ^ 0x80 * (rng.random() < 0.1))


@lie("mkv")
def blocks_discardable(data: bytes, rng: Rng) -> bytes | None:
    return _flags(data, lambda flags: flags | 1)


def _times(data: bytes, change: Callable[[np.ndarray], np.ndarray]) -> bytes | None:
    places = _blocks(data)
    times = np.array([struct.unpack_from(">h", data, at)[0] for at in places], np.int64)
    changed = bytearray(data)
    for at, time in zip(places, change(times.copy()).tolist(), strict=True):
        struct.pack_into(">h", changed, at, max(min(time, 32767), -32768))
    return bytes(changed)


@lie("mkv")
def block_times_swapped(data: bytes, rng: Rng) -> bytes | None:
    def change(times: np.ndarray) -> np.ndarray:
        for number in few(rng, len(times) - 1):
            times[[number, number + 1]] = times[[number + 1, number]]
        return times

    return _times(data, change)


@lie("mkv")
def block_times_wrong(data: bytes, rng: Rng) -> bytes | None:
    def change(times: np.ndarray) -> np.ndarray:
        for number in few(rng, len(times)):
            times[number] += int(rng.choice([-200, -80, -40, -1, 1, 40, 80, 200, 1000]))
        return times

    return _times(data, change)


@lie("mkv")
def block_times_equal(data: bytes, rng: Rng) -> bytes | None:
    def change(times: np.ndarray) -> np.ndarray:
        for number in few(rng, len(times) - 1):
            times[number + 1] = times[number]
        return times

    return _times(data, change)


@lie("mkv")
def block_times_sorted(data: bytes, rng: Rng) -> bytes | None:
    """Decode times in place of presentation times, as some writers give them."""
    return _times(data, np.sort)


@lie("mkv")
def cluster_times_wrong(data: bytes, rng: Rng) -> bytes | None:
    times = list(_inside(data, SEGMENT, CLUSTER, _TIMESTAMP))
    if not times:
        return None
    changed = bytearray(data)
    for number in few(rng, len(times)):
        _, _, begin, stop = times[number]
        value = int.from_bytes(data[begin:stop], "big") + int(rng.choice([-400, -40, 40, 120]))
        changed[begin:stop] = max(min(value, 256 ** (stop - begin) - 1), 0).to_bytes(stop - begin, "big")
    return bytes(changed)


def _voided(data: bytes, *path: int) -> bytes | None:
    """The elements at a path made Void, in place."""
    changed = bytearray(data)
    for each in _inside(data, *path):
        size = each.stop - each.start
        if size > 9:
            changed[each.start : each.start + 9] = bytes([_VOID]) + (1 << 56 | size - 9).to_bytes(8, "big")
        elif size >= 2:
            changed[each.start : each.start + 2] = bytes([_VOID, 0x80 | size - 2])
    return bytes(changed)


@lie("mkv")
def cues_removed(data: bytes, rng: Rng) -> bytes | None:
    return _voided(data, SEGMENT, CUES)


@lie("mkv")
def references_removed(data: bytes, rng: Rng) -> bytes | None:
    """Blocks of groups without a reference are keyframes."""
    return _voided(data, SEGMENT, CLUSTER, BLOCK_GROUP, REFERENCE)


@lie("mkv")
def private_removed(data: bytes, rng: Rng) -> bytes | None:
    return _voided(data, SEGMENT, _TRACKS, _ENTRY, _PRIVATE)


@lie("mkv")
def track_size_wrong(data: bytes, rng: Rng) -> bytes | None:
    changed = bytearray(data)
    for kind in (0xB0, 0xBA):
        for each in _inside(data, SEGMENT, _TRACKS, _ENTRY, _VIDEO, kind):
            value = int.from_bytes(data[each.payload : each.stop], "big")
            wrong = value + int(rng.choice([-16, -8, -2, 2, 8, 64]))
            size = each.stop - each.payload
            changed[each.payload : each.stop] = min(max(wrong, 1), 256**size - 1).to_bytes(size, "big")
    return bytes(changed)


def _grouped(data: bytes, refer: Callable[[bool], bool]) -> bytes | None:
    """Simple blocks as groups, without Cues and SeekHead; with references where ``refer(whether a keyframe)``."""
    segment = next(_inside(data, SEGMENT), None)
    if segment is None:
        return None
    parts = []
    for each in _elements(data, segment.payload, segment.stop):
        if each.kind in (CUES, SEEK_HEAD):
            continue
        if each.kind != CLUSTER:
            parts.append(data[each.start : each.stop])
            continue
        inner = []
        for one in _elements(data, each.payload, each.stop):
            if one.kind != SIMPLE_BLOCK:
                inner.append(data[one.start : one.stop])
                continue
            flags = data[one.payload + 3]
            block = data[one.payload : one.payload + 3] + bytes([flags & 0x7E]) + data[one.payload + 4 : one.stop]
            references = element(REFERENCE, b"\xd8") if refer(bool(flags & 0x80)) else b""
            inner.append(element(BLOCK_GROUP, element(BLOCK, block), references))
        parts.append(element(CLUSTER, *inner))
    return data[: segment.start] + element(SEGMENT, *parts, size_length=8)


@lie("mkv")
def groups_instead_of_simple_blocks(data: bytes, rng: Rng) -> bytes | None:
    return _grouped(data, lambda key: not key)


@lie("mkv")
def groups_without_references(data: bytes, rng: Rng) -> bytes | None:
    return _grouped(data, lambda key: False)


@lie("mkv")
def groups_with_random_references(data: bytes, rng: Rng) -> bytes | None:
    return _grouped(data, lambda key: bool(rng.integers(2)))
