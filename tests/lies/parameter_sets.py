"""Lies with the parameter sets of H.264 and HEVC: put into packets, taken out of them, altered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bit_writing import with_emulation_prevention

from lies.registry import Rng, lie
from lies.remuxed import Packet, Packets, rewritten
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

_SET_TYPES = {"h264": (7, 8), "hevc": (32, 33, 34)}


def unit_type(codec: str, unit: bytes) -> int:
    return unit[0] & 31 if codec == "h264" else unit[0] >> 1 & 63


def joined_units(units: Iterable[bytes], length_size: int) -> bytes:
    """NAL units as they stand in a packet."""
    if length_size:
        return b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def units_of(found: Packets, data: bytes) -> list[bytes]:
    """The NAL units of a packet."""
    return [data[start:stop] for start, stop in iterate_nals(data, nal_length_size(found.codec, found.config))]


def sets_of(found: Packets) -> list[bytes]:
    """The parameter sets of the configuration record, else of the first packet."""
    sets = parameter_sets(found.codec, found.config) if found.config else []
    return sets or [
        unit
        for unit in units_of(found, found.packets[0].data)
        if unit_type(found.codec, unit) in _SET_TYPES[found.codec]
    ]


def _inserted(found: Packets, units: Iterable[bytes], packet: Packet) -> Packet:
    """The packet with units in front of its first slice."""
    length_size = nal_length_size(found.codec, found.config)
    own = units_of(found, packet.data)
    first_slice = next((n for n, unit in enumerate(own) if is_slice(found.codec, unit)), 0)
    return replace(packet, data=joined_units([*own[:first_slice], *units, *own[first_slice:]], length_size))


def is_slice(codec: str, unit: bytes) -> bool:
    kind = unit_type(codec, unit)
    return 1 <= kind <= 5 if codec == "h264" else kind < 32


def _told(data: bytes, change: Callable[[Packets], list[Packet] | None]) -> bytes | None:
    return rewritten(data, lambda found: change(found) if found.codec in _SET_TYPES else None)


def _others(found: Packets) -> list[int]:
    return [number for number, each in enumerate(found.packets) if not each.key]


def _keys(found: Packets) -> list[int]:
    return [number for number, each in enumerate(found.packets) if each.key]


@lie()
def sets_before_keyframes(data: bytes, rng: Rng) -> bytes | None:
    def change(found: Packets) -> list[Packet]:
        return [_inserted(found, sets_of(found), each) if each.key else each for each in found.packets]

    return _told(data, change)


@lie()
def sets_everywhere(data: bytes, rng: Rng) -> bytes | None:
    return _told(data, lambda found: [_inserted(found, sets_of(found), each) for each in found.packets])


@lie()
def sets_again_inside_a_gop(data: bytes, rng: Rng) -> bytes | None:
    """The same sets as before, which change nothing."""

    def change(found: Packets) -> list[Packet] | None:
        packets, others = list(found.packets), _others(found)
        if not others:
            return None
        number = others[int(rng.integers(len(others)))]
        packets[number] = _inserted(found, sets_of(found), packets[number])
        return packets

    return _told(data, change)


@lie()
def sets_only_at_the_start(data: bytes, rng: Rng) -> bytes | None:
    """Sets that stand in packets are left out of all but the first."""

    def change(found: Packets) -> list[Packet]:
        size, wanted = nal_length_size(found.codec, found.config), _SET_TYPES[found.codec]
        kept = [
            [unit for unit in units_of(found, each.data) if not number or unit_type(found.codec, unit) not in wanted]
            for number, each in enumerate(found.packets)
        ]
        return [replace(each, data=joined_units(units, size)) for each, units in zip(found.packets, kept, strict=True)]

    return _told(data, change)


def _altered_pps(found: Packets, by: int) -> bytes | None:
    """The stream's PPS with another initial quantiser."""
    kind = 8 if found.codec == "h264" else 34
    unit = next((each for each in sets_of(found) if unit_type(found.codec, each) == kind), None)
    return unit and (_h264_pps(unit, by) if found.codec == "h264" else _hevc_pps(unit, by))


def _h264_pps(unit: bytes, by: int) -> bytes | None:
    """ITU-T H.264, 7.3.2.2; None with slice groups."""
    bits, at = _bits(unit, 1)
    _, at = _read_ue(bits, at)
    _, at = _read_ue(bits, at)
    groups, at = _read_ue(bits, at + 2)
    if groups:
        return None
    _, at = _read_ue(bits, at)
    _, at = _read_ue(bits, at)
    return unit[:1] + _with_quantiser(bits, at + 3, by)


def _hevc_pps(unit: bytes, by: int) -> bytes:
    """ITU-T H.265, 7.3.2.3."""
    bits, at = _bits(unit, 2)
    _, at = _read_ue(bits, at)
    _, at = _read_ue(bits, at)
    _, at = _read_ue(bits, at + 7)
    _, at = _read_ue(bits, at)
    return unit[:2] + _with_quantiser(bits, at, by)


def _with_quantiser(bits: str, at: int, by: int) -> bytes:
    code, after = _read_ue(bits, at)
    value = (code + 1) // 2 if code & 1 else -(code // 2)
    value = value + by if value + by < 20 else value - by
    new = f"{(2 * value - 1 if value > 0 else -2 * value) + 1:b}"
    whole = (bits[:at] + "0" * (len(new) - 1) + new + bits[after:]).rstrip("0")
    whole += "0" * (-len(whole) % 8)
    return with_emulation_prevention(int(whole, 2).to_bytes(len(whole) // 8, "big"))


def _bits(unit: bytes, header: int) -> tuple[str, int]:
    payload = unit[header:].replace(b"\0\0\3", b"\0\0")
    return "".join(f"{byte:08b}" for byte in payload), 0


def _read_ue(bits: str, at: int) -> tuple[int, int]:
    zeros = bits.index("1", at) - at
    return int(bits[at + zeros : at + 2 * zeros + 1], 2) - 1, at + 2 * zeros + 1


@lie()
def pps_altered_at_a_keyframe(data: bytes, rng: Rng) -> bytes | None:
    """Another PPS once, at a keyframe; it holds for the GOPs that follow, up to another keyframe with the first one."""

    def change(found: Packets) -> list[Packet] | None:
        keys, altered = _keys(found)[1:], _altered_pps(found, int(rng.choice([1, 2, 4])))
        if not keys or altered is None:
            return None
        packets = list(found.packets)
        first = int(rng.integers(len(keys)))
        packets[keys[first]] = _inserted(found, [altered], packets[keys[first]])
        back = first + int(rng.integers(1, 4))
        if back < len(keys):
            packets[keys[back]] = _inserted(found, sets_of(found), packets[keys[back]])
        return packets

    return _told(data, change)


@lie(inside_gops=True)
def pps_altered_inside_a_gop(data: bytes, rng: Rng) -> bytes | None:
    def change(found: Packets) -> list[Packet] | None:
        others, altered = _others(found), _altered_pps(found, int(rng.choice([1, 2, 4])))
        if not others or altered is None:
            return None
        packets = list(found.packets)
        number = others[int(rng.integers(len(others)))]
        packets[number] = _inserted(found, [altered], packets[number])
        back = next((key for key in _keys(found) if key > number), None)
        if back is not None and rng.integers(2):
            packets[back] = _inserted(found, sets_of(found), packets[back])
        return packets

    return _told(data, change)


@lie(damages=True)
def pps_altered_in_the_first_packet(data: bytes, rng: Rng) -> bytes | None:
    """The record has one PPS, the first packet another of the same number, which holds for all that follows."""

    def change(found: Packets) -> list[Packet] | None:
        altered = _altered_pps(found, int(rng.choice([1, 2, 4])))
        return altered and [_inserted(found, [altered], found.packets[0]), *found.packets[1:]]

    return _told(data, change)


@lie()
def recovery_points_lie(data: bytes, rng: Rng) -> bytes | None:
    """Recovery point messages before pictures that are none (H.264: recovers at once; HEVC: at this picture)."""

    def change(found: Packets) -> list[Packet] | None:
        message = b"\x06\x06\x01\xc4\x80" if found.codec == "h264" else b"\x4e\x01\x06\x01\xd0\x80"
        packets, others = list(found.packets), _others(found)
        for number in others:
            if rng.random() < 0.1:
                packets[number] = _inserted(found, [message], packets[number])
        return packets

    return _told(data, change)


@lie()
def delimiters_and_messages_between(data: bytes, rng: Rng) -> bytes | None:
    """User data, and in HEVC a suffix message, where they may stand and mean nothing."""

    def change(found: Packets) -> list[Packet]:
        text = b"\x05\x14" + rng.bytes(16).replace(b"\0", b"\1") + b"lies\x80"
        unit = b"\x06" + text if found.codec == "h264" else b"\x4e\x01" + text
        return [_inserted(found, [unit], each) if rng.random() < 0.3 else each for each in found.packets]

    return _told(data, change)
