"""Lies of FLV files: frame types, sequence headers, composition times, timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lies.registry import Rng, few, lie


class _Tag(NamedTuple):
    start: int
    kind: int
    payload: int
    stop: int  # of the size behind it


def _tags(data: bytes) -> Iterator[_Tag]:
    at = int.from_bytes(data[5:9], "big") + 4
    while at + 11 <= len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        stop = at + 11 + size + 4
        if stop > len(data):
            return
        yield _Tag(at, data[at] & 31, at + 11, stop)
        at = stop


def _frames(data: bytes) -> list[_Tag]:
    """Tags of coded pictures: no sequence headers."""
    tags = [tag for tag in _tags(data) if tag.kind == 9]
    return [tag for tag in tags if not _is_avc(data, tag) or data[tag.payload + 1] == 1]


def _is_avc(data: bytes, tag: _Tag) -> bool:
    return data[tag.payload] & 15 == 7


def _typed(data: bytes, choose: Callable[[int], int]) -> bytes | None:
    changed = bytearray(data)
    for tag in _frames(data):
        if not data[tag.payload] & 0x80:
            changed[tag.payload] = choose(data[tag.payload] >> 4) << 4 | data[tag.payload] & 15
    return bytes(changed)


@lie("flv")
def tags_all_key(data: bytes, rng: Rng) -> bytes | None:
    return _typed(data, lambda kind: 1)


@lie("flv")
def tags_no_key(data: bytes, rng: Rng) -> bytes | None:
    return _typed(data, lambda kind: 2)


@lie("flv")
def tags_all_disposable(data: bytes, rng: Rng) -> bytes | None:
    return _typed(data, lambda kind: kind if kind == 1 else 3)


@lie("flv")
def tags_random(data: bytes, rng: Rng) -> bytes | None:
    return _typed(data, lambda kind: int(rng.integers(1, 4)))


@lie("flv")
def composition_time_wrong(data: bytes, rng: Rng) -> bytes | None:
    frames = [tag for tag in _frames(data) if _is_avc(data, tag)]
    if not frames:
        return None
    changed = bytearray(data)
    for number in few(rng, len(frames)):
        at = frames[number].payload + 2
        value = int.from_bytes(data[at : at + 3], "big", signed=True) + int(rng.choice([-80, -40, -1, 40, 80, 400]))
        changed[at : at + 3] = value.to_bytes(3, "big", signed=True)
    return bytes(changed)


@lie("flv")
def tag_times_jump(data: bytes, rng: Rng) -> bytes | None:
    """From some tag on time starts anew, or goes on much later."""
    frames = _frames(data)
    if len(frames) < 4:
        return None
    changed = bytearray(data)
    begin = int(rng.integers(1, len(frames)))
    step = int(rng.choice([5000, -(int.from_bytes(data[frames[begin].start + 4 : frames[begin].start + 7], "big"))]))
    for tag in frames[begin:]:
        time = int.from_bytes(data[tag.start + 4 : tag.start + 7], "big") + step
        changed[tag.start + 4 : tag.start + 7] = max(time, 0).to_bytes(3, "big")
    return bytes(changed)


def _sequence_headers(data: bytes) -> list[_Tag]:
    return [tag for tag in _tags(data) if tag.kind == 9 and _is_avc(data, tag) and data[tag.payload + 1] == 0]


@lie("flv")
def sequence_header_repeated(data: bytes, rng: Rng) -> bytes | None:
    headers, frames = _sequence_headers(data), _frames(data)
    if not headers or not frames:
        return None
    tag, before = data[headers[0].start : headers[0].stop], frames[int(rng.integers(len(frames)))].start
    return data[:before] + tag + data[before:]


@lie("flv")
def frames_doubled(data: bytes, rng: Rng) -> bytes | None:
    """Tags of some frames twice."""
    frames = _frames(data)
    if not frames:
        return None
    tag = frames[int(rng.integers(len(frames)))]
    return data[: tag.stop] + data[tag.start : tag.stop] + data[tag.stop :]


@lie("flv", damages=True)
def tags_dropped(data: bytes, rng: Rng) -> bytes | None:
    frames = _frames(data)
    if not frames:
        return None
    tag = frames[int(rng.integers(len(frames)))]
    return data[: tag.start] + data[tag.stop :]
