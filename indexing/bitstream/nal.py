"""Find the NAL units of H.264 and HEVC in packets and configuration records, and the messages (SEI) in such units."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

_ANNEX_B_CONFIG = 0  # a NAL length size of zero stands for start codes
_PREFIX = 14  # nal_unit_type of ITU-T H.264, table 7-1
# nal_unit_type of pictures (ITU-T H.264, table 7-1; ITU-T H.265, table 7-1). In HEVC, IDR and CRA pictures are IRAP.
H264_IDR = 5
HEVC_IRAP = range(16, 24)
HEVC_IDR = (19, 20)
HEVC_CRA = 21
HEVC_BLA = range(16, 19)
HEVC_ENDS = (36, 37)  # of a sequence, of a bitstream

# Maximum number of pictures that a decoder holds: MaxDpbFrames of ITU-T H.264, A.3.1, and MaxDpbSize of ITU-T H.265,
# A.4.2. So no picture is shown before one that was decoded this many pictures earlier.
MOST_HELD = 16


@lru_cache(256)  # called for each packet
def nal_length_size(codec: str, config: bytes) -> int:
    """Return bytes of the length before each NAL unit by avcC, hvcC or vvcC (ISO/IEC 14496-15); 0 for start codes."""
    if codec == "h264" and len(config) >= 7 and config[0] == 1:
        return (config[4] & 3) + 1
    if codec == "vvc" and len(config) > 1 and config[0] >> 3 == 31:
        return (config[0] >> 1 & 3) + 1
    if codec == "hevc" and len(config) >= 23 and config[:3] != b"\0\0\1" and config[:4] != b"\0\0\0\1":
        return (config[21] & 3) + 1
    return _ANNEX_B_CONFIG


def iterate_nals(payload: bytes | memoryview, length_size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each NAL unit in a packet, with header byte; the last may be truncated."""
    if length_size:
        position = 0
        while position + length_size < len(payload):
            start = position + length_size
            position = start + int.from_bytes(payload[position:start], "big")
            if position > start:
                stop = min(position, len(payload))
                yield start, stop
                if payload[start] & 31 == _PREFIX:
                    # Some phones write all other units of a packet into its prefix unit, after start codes.
                    yield from ((start + first, start + last) for first, last in iterate_nals(payload[start:stop], 0))
        return
    data = bytes(payload)
    start = data.find(b"\0\0\1") + 3
    while start > 2:
        following = data.find(b"\0\0\1", start)
        stop = len(data) if following < 0 else following
        if stop > start:
            yield start, stop
        start = following + 3


def parameter_sets(codec: str, config: bytes) -> list[bytes]:
    """Return the NAL units of a configuration record, with header bytes: avcC, hvcC or start codes.

    Sources: ISO/IEC 14496-15, 5.3.3.1 (avcC) and 8.3.3.1 (hvcC). A truncated record gives the units before the cut.
    """
    if not nal_length_size(codec, config):
        return [bytes(config[start:stop]) for start, stop in iterate_nals(config, 0)]
    units: list[bytes] = []
    if codec == "h264":
        position = 5
        for mask in (0x1F, 0xFF):  # the number of SPS has five bits, that of PPS eight
            if position < len(config):
                position = _read_units(config, position + 1, config[position] & mask, units)
    else:
        position = 23
        for _ in range(config[22]):
            if position + 3 > len(config):
                break
            position = _read_units(
                config, position + 3, int.from_bytes(config[position + 1 : position + 3], "big"), units
            )
    return units


def _read_units(config: bytes, position: int, count: int, units: list[bytes]) -> int:
    for _ in range(count):
        start = position + 2
        position = start + int.from_bytes(config[position:start], "big")
        if position > len(config) or start > len(config):
            return len(config)
        units.append(config[start:position])
    return position


def iterate_messages(sei: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (payloadType, payload) of the messages in an SEI NAL unit (ITU-T H.264, 7.3.2.3.1; ITU-T H.265, 7.3.5).

    Args:
        sei: the unit without its header. If it is truncated, so is the last payload.
    """
    sei = sei.replace(b"\0\0\3", b"\0\0")  # sizes do not count emulation prevention
    position = 0
    while position + 2 < len(sei):
        numbers = [0, 0]
        for which in (0, 1):
            while position < len(sei) and sei[position] == 0xFF:
                numbers[which], position = numbers[which] + 255, position + 1
            if position >= len(sei):
                return
            numbers[which], position = numbers[which] + sei[position], position + 1
        kind, size = numbers
        yield kind, sei[position : position + size]
        position += size
