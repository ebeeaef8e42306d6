"""Lies of elementary streams (start codes): where they are cut, what comes twice, units that are missing."""

from __future__ import annotations

import re
from itertools import pairwise

from lies.registry import Rng, few, lie


def _units(data: bytes) -> list[int]:
    """Where each unit's start code begins."""
    return [match.start() for match in re.finditer(rb"\0?\0\0\x01", data)]


@lie("raw", "ps")
def elementary_twice(data: bytes, rng: Rng) -> bytes | None:
    return data + data


@lie("raw", "ps", damages=True)
def elementary_from_the_middle(data: bytes, rng: Rng) -> bytes | None:
    units = _units(data)
    return data[units[int(rng.integers(len(units) // 2 + 1))] :]


@lie("raw", "ps", damages=True)
def elementary_cut(data: bytes, rng: Rng) -> bytes | None:
    units = _units(data)
    return data[: units[int(rng.integers(len(units) // 4 + 1, len(units)))]] if len(units) > 3 else None


@lie("raw", "ps", damages=True)
def elementary_part_before(data: bytes, rng: Rng) -> bytes | None:
    """A part, and then all of it."""
    units = _units(data)
    return data[: units[int(rng.integers(len(units)))]] + data


@lie("raw", damages=True)
def units_missing(data: bytes, rng: Rng) -> bytes | None:
    units = [*_units(data), len(data)]
    gone = set(few(rng, len(units) - 1))
    return b"".join(data[start:stop] for number, (start, stop) in enumerate(pairwise(units)) if number not in gone)


@lie("raw", damages=True)
def units_doubled(data: bytes, rng: Rng) -> bytes | None:
    units = [*_units(data), len(data)]
    twice = set(few(rng, len(units) - 1))
    return b"".join(data[start:stop] * (1 + (number in twice)) for number, (start, stop) in enumerate(pairwise(units)))


@lie("raw")
def zeros_between(data: bytes, rng: Rng) -> bytes | None:
    """Trailing zero bytes before some start codes, as the standards allow."""
    changed = data
    for at in reversed([_units(data)[number] for number in few(rng, len(_units(data)))]):
        changed = changed[:at] + bytes(int(rng.integers(1, 40))) + changed[at:]
    return changed
