"""The picture format of AV1, from its sequence header."""

from __future__ import annotations

from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader

_SEQUENCE_HEADER = 1
# av1C: four bytes, then OBUs ("AV1 Codec ISO Media File Format Binding", 2.3.3).
_RECORD_MARKER, _RECORD_HEADER = b"\x81", 4
_SRGB = (1, 13, 0)


class SequenceFormat(NamedTuple):
    """What a sequence header tells: size in pixels, chroma format, bit depth, H.273 code points, range."""

    width: int
    height: int
    chroma: str
    bit_depth: int
    color_primaries: int
    color_transfer: int
    color_matrix: int
    full_range: bool


def sequence_format(config: bytes) -> SequenceFormat | None:
    """The format that the sequence header in an av1C record, or in OBUs alone, tells of; None where there is none."""
    position = _RECORD_HEADER if config[:1] == _RECORD_MARKER else 0
    while position + 1 < len(config):
        kind, has_extension, has_size = config[position] >> 3 & 15, config[position] >> 2 & 1, config[position] >> 1 & 1
        position += 1 + has_extension
        size, shift = 0, 0
        while has_size and position < len(config) and shift < 56:
            size |= (config[position] & 0x7F) << shift
            shift += 7
            position += 1
            if not config[position - 1] & 0x80:
                break
        stop = position + size if has_size else len(config)
        if kind == _SEQUENCE_HEADER:
            try:
                return _read_sequence_header(BitReader.raw(config[position:stop]))
            except ValueError:  # it ends too early
                return None
        position = stop
    return None


def _read_sequence_header(bits: BitReader) -> SequenceFormat:
    """sequence_header_obu of the AV1 bitstream specification, 5.5.1."""
    profile = bits.u(3)
    bits.u(1)
    reduced = bits.u(1)
    if reduced:
        bits.u(5)
    else:
        _skip_operating_points(bits)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    width, height = bits.u(width_bits) + 1, bits.u(height_bits) + 1
    if not reduced and bits.u(1):
        bits.u(7)
    bits.u(3)
    if not reduced:
        bits.u(4)
        has_order_hint = bits.u(1)
        bits.u(2 * has_order_hint)
        # Either tool may be left to each frame, or forced on or off.
        if (bits.u(1) or bits.u(1)) and not bits.u(1):
            bits.u(1)
        bits.u(3 * has_order_hint)
    bits.u(3)
    return _read_color_config(bits, profile, width, height)


def _skip_operating_points(bits: BitReader) -> None:
    delay_bits = 0
    if bits.u(1):
        bits.u(64)
        if bits.u(1):
            bits.ue()
        if bits.u(1):
            delay_bits = bits.u(5) + 1
            bits.u(42)
    has_display_delay = bits.u(1)
    for _ in range(bits.u(5) + 1):
        bits.u(12)
        if bits.u(5) > 7:
            bits.u(1)
        if delay_bits and bits.u(1):
            bits.u(2 * delay_bits + 1)
        if has_display_delay and bits.u(1):
            bits.u(4)


def _read_color_config(bits: BitReader, profile: int, width: int, height: int) -> SequenceFormat:
    """color_config of the AV1 bitstream specification, 5.5.2."""
    deep = bits.u(1)
    depth = 12 if deep and profile == 2 and bits.u(1) else 10 if deep else 8
    is_gray = profile != 1 and bits.u(1)
    colors = (bits.u(8), bits.u(8), bits.u(8)) if bits.u(1) else (2, 2, 2)
    if not is_gray and colors == _SRGB:
        return SequenceFormat(width, height, "444", depth, *colors, True)
    full = bool(bits.u(1))
    if is_gray:
        chroma = "400"
    elif profile == 2 and depth == 12:
        chroma = ("420" if bits.u(1) else "422") if bits.u(1) else "444"
    else:
        chroma = ("420", "444", "422")[min(profile, 2)]
    return SequenceFormat(width, height, chroma, depth, *colors, full)
