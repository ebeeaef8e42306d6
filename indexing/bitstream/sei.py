"""Read the messages in supplemental enhancement information (SEI) of H.264 and HEVC streams."""

from __future__ import annotations

from collections.abc import Iterator


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
