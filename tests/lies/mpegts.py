"""Lies of MPEG transport streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lies.registry import Rng, few, lie

_SIZE = 188


class _Packet(NamedTuple):
    """A transport packet: where it stands, its pid, where its payload begins, whether one of units begins there."""

    start: int
    pid: int
    payload: int
    begins: bool


def _packets(data: bytes) -> Iterator[_Packet]:
    for start in range(0, len(data) - _SIZE + 1, _SIZE):
        if data[start] != 0x47:
            return
        control = data[start + 3] >> 4 & 3
        payload = start + 4 + (1 + data[start + 4] if control & 2 else 0)
        pid = int.from_bytes(data[start + 1 : start + 3], "big") & 0x1FFF
        yield _Packet(start, pid, payload if control & 1 else start + _SIZE, bool(data[start + 1] & 0x40))


def _video(data: bytes) -> list[_Packet]:
    """The packets of the pid whose units are video."""
    packets = list(_packets(data))
    pid = next(
        (
            p.pid
            for p in packets
            if p.begins and data[p.payload : p.payload + 3] == b"\0\0\1" and data[p.payload + 3] >> 4 == 0xE
        ),
        None,
    )
    return [packet for packet in packets if packet.pid == pid]


def _marked(data: bytes, choose: Callable[[bool], bool]) -> bytes | None:
    """The random access indicators, where there is an adaptation field."""
    changed = bytearray(data)
    for packet in _video(data):
        if data[packet.start + 3] & 0x20 and data[packet.start + 4]:
            flags = data[packet.start + 5]
            changed[packet.start + 5] = flags & ~0x40 | 0x40 * choose(bool(flags & 0x40))
    return bytes(changed)


@lie("ts")
def random_access_everywhere(data: bytes, rng: Rng) -> bytes | None:
    return _marked(data, lambda marked: True)


@lie("ts")
def random_access_nowhere(data: bytes, rng: Rng) -> bytes | None:
    return _marked(data, lambda marked: False)


@lie("ts")
def random_access_random(data: bytes, rng: Rng) -> bytes | None:
    return _marked(data, lambda marked: bool(rng.integers(2)))


def _times(data: bytes) -> list[int]:
    """Where the pts of each unit stands."""
    units = [p for p in _video(data) if p.begins and p.payload + 14 <= p.start + _SIZE]
    return [p.payload + 9 for p in units if data[p.payload + 7] & 0x80]


def _read(data: bytes | bytearray, at: int) -> int:
    first, second, third = (
        data[at],
        int.from_bytes(data[at + 1 : at + 3], "big"),
        int.from_bytes(data[at + 3 : at + 5], "big"),
    )
    return (first >> 1 & 7) << 30 | (second >> 1) << 15 | third >> 1


def _write(data: bytearray, at: int, value: int) -> None:
    value %= 1 << 33
    data[at] = data[at] & 0xF1 | value >> 30 << 1
    for place, bits in ((at + 1, value >> 15), (at + 3, value)):
        data[place : place + 2] = ((bits & 0x7FFF) << 1 | 1).to_bytes(2, "big")


@lie("ts")
def pts_wrong(data: bytes, rng: Rng) -> bytes | None:
    times, changed = _times(data), bytearray(data)
    if not times:
        return None
    for number in few(rng, len(times)):
        step = int(rng.choice([-36000, -7200, -3600, -1, 1, 3600, 7200, 90000, 10**7]))
        _write(changed, times[number], _read(data, times[number]) + step)
    return bytes(changed)


@lie("ts")
def pts_swapped(data: bytes, rng: Rng) -> bytes | None:
    times, changed = _times(data), bytearray(data)
    if len(times) < 2:
        return None
    for number in few(rng, len(times) - 1):
        one, other = _read(changed, times[number]), _read(changed, times[number + 1])
        _write(changed, times[number], other)
        _write(changed, times[number + 1], one)
    return bytes(changed)


@lie("ts")
def pts_jump(data: bytes, rng: Rng) -> bytes | None:
    """From some unit on all is later, or earlier; decode times stay."""
    times, changed = _times(data), bytearray(data)
    if len(times) < 2:
        return None
    step = int(rng.choice([-900000, -90000, 90000, 900000]))
    for at in times[int(rng.integers(1, len(times))) :]:
        _write(changed, at, _read(data, at) + step)
    return bytes(changed)


@lie("ts")
def clock_wraps(data: bytes, rng: Rng) -> bytes | None:
    """All times moved to where the 33-bit clock begins anew."""
    changed = bytearray(data)
    first = (1 << 33) - int(rng.integers(0, 200000))
    for packet in _packets(data):
        if (
            packet.begins
            and data[packet.payload : packet.payload + 3] == b"\0\0\1"
            and packet.payload + 19 <= len(data)
        ):
            flags = data[packet.payload + 7]
            for at in [packet.payload + 9] * bool(flags & 0x80) + [packet.payload + 14] * (flags & 0xC0 == 0xC0):
                _write(changed, at, _read(data, at) + first)
    return bytes(changed)


@lie("ts", damages=True)
def transport_packets_dropped(data: bytes, rng: Rng) -> bytes | None:
    packets = _video(data)
    dropped = {packets[number].start for number in few(rng, len(packets))} if packets else set()
    return b"".join(data[at : at + _SIZE] for at in range(0, len(data), _SIZE) if at not in dropped)


@lie("ts")
def cut_at_the_start(data: bytes, rng: Rng) -> bytes | None:
    """Recorded from some packet on, after the tables."""
    packets = list(_packets(data))
    first = next((number for number, packet in enumerate(packets) if packet.pid not in (0, 17, 0x1000, 4096)), 0)
    keep = int(rng.integers(first, max(len(packets) // 2, first + 1)))
    return data[: first * _SIZE] + data[keep * _SIZE :]


@lie("ts")
def stream_twice(data: bytes, rng: Rng) -> bytes | None:
    """The recording after itself: times start anew."""
    return data + data


@lie("ts", damages=True)
def stream_after_its_middle(data: bytes, rng: Rng) -> bytes | None:
    """A part of the recording, cut at packets and so inside a picture, and then all of it."""
    count = len(data) // _SIZE
    return data[: int(rng.integers(count // 4, count)) * _SIZE] + data


@lie("ts")
def continuity_lost(data: bytes, rng: Rng) -> bytes | None:
    """Counters that say packets are missing where none is."""
    changed, packets = bytearray(data), _video(data)
    for number in few(rng, len(packets)):
        start = packets[number].start
        changed[start + 3] = changed[start + 3] & 0xF0 | int(rng.integers(16))
    return bytes(changed)


@lie("ts", damages=True)
def pids_doubled(data: bytes, rng: Rng) -> bytes | None:
    """Packets sent twice, as the standard allows, and others twice with another counter, as it does not."""
    packets = _video(data)
    doubled = {packets[number].start: bool(rng.integers(2)) for number in few(rng, len(packets))}
    parts = []
    for at in range(0, len(data), _SIZE):
        parts.append(data[at : at + _SIZE])
        if at in doubled:
            again = bytearray(data[at : at + _SIZE])
            again[3] = again[3] & 0xF0 | (again[3] + doubled[at]) & 15
            parts.append(bytes(again))
    return b"".join(parts)


@lie("ts", damages=True)
def transport_errors(data: bytes, rng: Rng) -> bytes | None:
    """Packets that say of themselves that they are damaged."""
    changed, packets = bytearray(data), _video(data)
    for number in few(rng, len(packets)):
        changed[packets[number].start + 1] |= 0x80
    return bytes(changed)


@lie("ts")
def null_packets_between(data: bytes, rng: Rng) -> bytes | None:
    null = b"\x47\x1f\xff\x10" + b"\xff" * 184
    count = len(data) // _SIZE
    places = set(rng.choice(count, min(8, count), replace=False).tolist())
    return b"".join(data[n * _SIZE : (n + 1) * _SIZE] + (null if n in places else b"") for n in range(count))
