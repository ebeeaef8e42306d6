"""Lies of an mp4 file's edit list and of the sizes around the picture."""

from __future__ import annotations

import struct

from mp4_writing import box

from lies.mp4_boxes import change_track, child, with_child
from lies.registry import Rng, lie


def _edited(data: bytes, rows: object) -> bytes | None:
    """The file with another edit list; ``rows`` gets the media's length and time scale, and the movie's time scale."""

    def change(track: bytes) -> bytes | None:
        header = child(track, b"mdia", b"mdhd")
        if header is None or len(header) < 20 or header[0]:
            return None
        scale, length = struct.unpack_from(">II", header, 12)
        chosen = rows(length, max(scale, 1))  # type: ignore[operator]
        body = b"".join(
            struct.pack(">III", int(span) % 2**32, int(start) % 2**32, rate) for span, start, rate in chosen
        )
        table = box(b"elst", struct.pack(">II", 0, len(chosen)) + body)
        return with_child(track, (b"edts",), table)

    return change_track(data, change)


# libavformat's muxer counts movies in milliseconds.
_MOVIE_SCALE = 1000


def _span(length: int, scale: int, part: float = 1.0) -> int:
    return round(length * part * _MOVIE_SCALE / scale)


@lie("mp4")
def edits_removed(data: bytes, rng: Rng) -> bytes | None:
    return change_track(data, lambda track: with_child(track, (b"edts",), None))


@lie("mp4")
def edits_skip_the_start(data: bytes, rng: Rng) -> bytes | None:
    part = float(rng.uniform(0.05, 0.7))
    return _edited(data, lambda length, scale: [(_span(length, scale, 1 - part), length * part, 1 << 16)])


@lie("mp4")
def edits_cut_the_end(data: bytes, rng: Rng) -> bytes | None:
    part = float(rng.uniform(0.3, 0.95))
    return _edited(data, lambda length, scale: [(_span(length, scale, part), 0, 1 << 16)])


@lie("mp4")
def edits_wait(data: bytes, rng: Rng) -> bytes | None:
    wait = int(rng.integers(1, 2000))
    return _edited(data, lambda length, scale: [(wait, -1, 1 << 16), (_span(length, scale), 0, 1 << 16)])


@lie("mp4")
def edits_repeat(data: bytes, rng: Rng) -> bytes | None:
    """A part is shown, then one that begins earlier."""
    first, second = float(rng.uniform(0.3, 0.8)), float(rng.uniform(0, 0.4))

    def rows(length: int, scale: int) -> list[tuple[float, float, int]]:
        return [
            (_span(length, scale, 1 - first), first * length, 1 << 16),
            (_span(length, scale, 0.5), second * length, 1 << 16),
        ]

    return _edited(data, rows)


@lie("mp4")
def edits_beyond_the_end(data: bytes, rng: Rng) -> bytes | None:
    return _edited(data, lambda length, scale: [(_span(length, scale, 3), length * 0.5, 1 << 16)])


@lie("mp4")
def edits_of_no_length(data: bytes, rng: Rng) -> bytes | None:
    start = int(rng.choice([0, 1, 512, 1024]))
    return _edited(data, lambda length, scale: [(0, start, 1 << 16)])


@lie("mp4")
def track_header_size(data: bytes, rng: Rng) -> bytes | None:
    """Another size in tkhd than the sample description has."""

    def change(track: bytes) -> bytes | None:
        header = child(track, b"tkhd")
        if header is None or len(header) < 8:
            return None
        width, height = struct.unpack(">II", header[-8:])
        scaled = struct.pack(">II", int(width * rng.choice([0.5, 0.9, 2])), height)
        return with_child(track, (b"tkhd",), header[:-8] + scaled)

    return change_track(data, change)
