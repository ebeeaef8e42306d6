"""Lies of the fragments of an mp4 file, told in place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from lies.mp4_boxes import boxes
from lies.registry import Rng, few, lie

_KEY, _NO_KEY, _DISPOSABLE = 0x02000000, 0x01010000, 0x01810000
_FLAGS = (_KEY, _NO_KEY, _DISPOSABLE, 0x00010000, 0)


class _Run(NamedTuple):
    """Where the fields of a trun stand; of samples (offset, bits of the fields that each has)."""

    flags: int
    first_flags: int | None
    samples: int
    count: int
    stride: int

    def field(self, bit: int, sample: int) -> int | None:
        """Where a sample's field stands; None without one."""
        if not self.flags & bit:
            return None
        before = sum(1 for each in (0x100, 0x200, 0x400, 0x800) if each < bit and self.flags & each)
        return self.samples + sample * self.stride + 4 * before


def _fragments(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start of the payload, stop) of the boxes in each traf."""
    for kind, _, begin, stop in boxes(data):
        if kind != b"moof":
            continue
        for inner, _, inside, end in boxes(data, begin, stop):
            if inner == b"traf":
                yield from ((name, payload, last) for name, _, payload, last in boxes(data, inside, end))


def _runs(data: bytes) -> list[_Run]:
    runs = []
    for kind, begin, _ in _fragments(data):
        if kind != b"trun":
            continue
        flags, count = struct.unpack_from(">II", data, begin)
        flags &= 0xFFFFFF
        position = begin + 8 + 4 * bool(flags & 1)
        first = position if flags & 4 else None
        position += 4 * bool(flags & 4)
        stride = 4 * sum(1 for bit in (0x100, 0x200, 0x400, 0x800) if flags & bit)
        runs.append(_Run(flags, first, position, count, stride))
    return runs


def _put(data: bytearray, at: int | None, value: int) -> None:
    if at is not None:
        struct.pack_into(">I", data, at, value % 2**32)


def _flags_everywhere(data: bytes, choose: object) -> bytes | None:
    """Flags of samples, of runs' first samples, and of tfhd's and trex's defaults, each by ``choose()``."""
    changed = bytearray(data)
    for run in _runs(data):
        _put(changed, run.first_flags, choose())  # type: ignore[operator]
        for sample in range(run.count):
            _put(changed, run.field(0x400, sample), choose())  # type: ignore[operator]
    for kind, begin, _ in _fragments(data):
        if kind == b"tfhd" and data[begin + 3] & 0x20:
            sizes = {1: 8, 2: 4, 8: 4, 16: 4}
            before = 8 + sum(size for bit, size in sizes.items() if data[begin + 3] & bit)
            _put(changed, begin + before, choose())  # type: ignore[operator]
    return bytes(changed)


@lie("mp4")
def trun_all_key(data: bytes, rng: Rng) -> bytes | None:
    return _flags_everywhere(data, lambda: _KEY)


@lie("mp4")
def trun_no_key(data: bytes, rng: Rng) -> bytes | None:
    return _flags_everywhere(data, lambda: _NO_KEY)


@lie("mp4")
def trun_all_disposable(data: bytes, rng: Rng) -> bytes | None:
    return _flags_everywhere(data, lambda: _DISPOSABLE)


@lie("mp4")
def trun_random_flags(data: bytes, rng: Rng) -> bytes | None:
    return _flags_everywhere(data, lambda: int(rng.choice(_FLAGS)))


def _some_fields(data: bytes, rng: Rng, bit: int, change: object) -> bytes | None:
    """Some samples' fields changed, over all runs."""
    places = [at for run in _runs(data) for sample in range(run.count) if (at := run.field(bit, sample)) is not None]
    if not places:
        return None
    changed = bytearray(data)
    for number in few(rng, len(places)):
        value = struct.unpack_from(">I", data, places[number])[0]
        _put(changed, places[number], change(value))  # type: ignore[operator]
    return bytes(changed)


@lie("mp4")
def trun_wrong_offset(data: bytes, rng: Rng) -> bytes | None:
    return _some_fields(data, rng, 0x800, lambda value: value + int(rng.choice([-1024, -512, 512, 1024, 4096, 20000])))


@lie("mp4")
def trun_zero_duration(data: bytes, rng: Rng) -> bytes | None:
    return _some_fields(data, rng, 0x100, lambda value: 0)


@lie("mp4")
def tfdt_wrong(data: bytes, rng: Rng) -> bytes | None:
    """Fragments that say they begin earlier or later."""
    times = [(begin, stop) for kind, begin, stop in _fragments(data) if kind == b"tfdt"]
    if not times:
        return None
    changed = bytearray(data)
    for number in few(rng, len(times)):
        last = times[number][1] - 4
        value = struct.unpack_from(">I", data, last)[0]
        _put(changed, last, max(value + int(rng.choice([-20000, -6000, -512, 512, 6000, 100000])), 0))
    return bytes(changed)


@lie("mp4")
def tfdt_removed(data: bytes, rng: Rng) -> bytes | None:
    changed = bytearray(data)
    for kind, begin, _ in _fragments(data):
        if kind == b"tfdt":
            changed[begin - 4 : begin] = b"free"
    return bytes(changed)
