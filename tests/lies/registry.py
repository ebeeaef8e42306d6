"""The list of all lies, and which of them can be told of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Rng = np.random.Generator
Tell = Callable[[bytes, Rng], bytes | None]


@dataclass(frozen=True)
class Lie:
    """A way to change a file.

    Attributes:
        name: of the function that tells it.
        containers: those that it can be told of; empty for any.
        damages: whether coded pictures come to harm, so that libavcodec may have to conceal.
        inside_gops: whether what decides about later GOPs comes to stand inside one, where only those find it who
            read it.
    """

    name: str
    containers: frozenset[str]
    change: Tell
    damages: bool
    inside_gops: bool

    def tell(self, data: bytes, seed: int) -> bytes | None:
        """The changed file; None where there is nothing to change."""
        changed = self.change(data, np.random.default_rng([seed, *self.name.encode()]))
        return None if changed == data else changed


LIES: dict[str, Lie] = {}


def lie(*containers: str, damages: bool = False, inside_gops: bool = False) -> Callable[[Tell], Tell]:
    """Enter a function into the list of lies."""

    def enter(tell: Tell) -> Tell:
        assert tell.__name__ not in LIES, tell.__name__
        LIES[tell.__name__] = Lie(tell.__name__, frozenset(containers), tell, damages, inside_gops)
        return tell

    return enter


def lies_of(data: bytes) -> list[Lie]:
    """The lies that suit a file's container."""
    container = container_of(data)
    return [each for each in LIES.values() if not each.containers or container in each.containers]


def container_of(data: bytes) -> str:
    """``mp4``, ``mkv``, ``avi``, ``flv``, ``ogg``, ``asf``, ``ts``, ``ps``, ``ivf``, ``raw`` or ``""``."""
    for magic, at, name in _MAGIC:
        if data[at : at + len(magic)] == magic:
            return name
    if data[:1] == data[188:189] == data[376:377] == b"\x47":
        return "ts"
    return "raw" if data[:3] == b"\0\0\1" or data[:4] == b"\0\0\0\1" else ""


_MAGIC = (
    (b"ftyp", 4, "mp4"),
    (b"moov", 4, "mp4"),
    (b"wide", 4, "mp4"),
    (b"\x1a\x45\xdf\xa3", 0, "mkv"),
    (b"AVI ", 8, "avi"),
    (b"FLV", 0, "flv"),
    (b"OggS", 0, "ogg"),
    (b"\x30\x26\xb2\x75", 0, "asf"),
    (b"\0\0\1\xba", 0, "ps"),
    (b"DKIF", 0, "ivf"),
)


def few(rng: Rng, count: int, most: int = 4) -> list[int]:
    """A few different numbers below ``count``, rising; mostly one, and none where there are none to choose from."""
    number = min(int(rng.choice([1, 1, 1, 2, 3, most])), max(count, 0))
    return sorted(rng.choice(max(count, 0), number, replace=False).tolist())
