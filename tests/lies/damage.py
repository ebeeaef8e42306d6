"""Damage: flipped bits, cut ends, parts that are missing, doubled or zero."""

from __future__ import annotations

from lies.registry import Rng, lie


@lie(damages=True)
def bits_flipped(data: bytes, rng: Rng) -> bytes | None:
    changed = bytearray(data)
    # The first bytes decide whether it is a file at all: too many cases would say nothing of frames.
    for at in rng.integers(min(200, len(data) // 2), len(data), int(rng.choice([1, 2, 4, 16]))).tolist():
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


@lie(damages=True)
def bytes_overwritten(data: bytes, rng: Rng) -> bytes | None:
    at = int(rng.integers(min(200, len(data) // 2), len(data)))
    size = int(rng.choice([1, 4, 16, 200]))
    return (data[:at] + rng.bytes(size) + data[at + size :])[: len(data)]


@lie(damages=True)
def bytes_zeroed(data: bytes, rng: Rng) -> bytes | None:
    at = int(rng.integers(min(200, len(data) // 2), len(data)))
    size = int(rng.choice([4, 64, 512]))
    return (data[:at] + bytes(size) + data[at + size :])[: len(data)]


@lie(damages=True)
def end_cut_off(data: bytes, rng: Rng) -> bytes | None:
    return data[: int(rng.integers(len(data) // 4, len(data)))]


@lie(damages=True)
def part_missing(data: bytes, rng: Rng) -> bytes | None:
    at = int(rng.integers(len(data) // 8, len(data)))
    return data[:at] + data[at + int(rng.choice([1, 16, 188, 1000])) :]


@lie(damages=True)
def part_doubled(data: bytes, rng: Rng) -> bytes | None:
    at = int(rng.integers(len(data) // 8, len(data)))
    return data[: at + int(rng.choice([16, 188, 2000]))] + data[at:]


@lie()
def rubbish_behind(data: bytes, rng: Rng) -> bytes | None:
    return data + rng.bytes(int(rng.choice([1, 100, 5000])))
