"""Read AV1's units and sequence header: the picture format, and what frame headers depend on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.formats import PictureFormat

SEQUENCE_HEADER = 1
CHOSEN_BY_FRAME = 2  # SELECT_SCREEN_CONTENT_TOOLS, SELECT_INTEGER_MV
# av1C: four bytes, then OBUs ("AV1 Codec ISO Media File Format Binding", 2.3.3).
_RECORD_MARKER, _RECORD_HEADER = b"\x81", 4
# In bytes; as long as the most operating points take.
_LONGEST_SEQUENCE_HEADER = 512
_SRGB = (1, 13, 0)
_TOP_LEFT = 2  # ChromaLocType of ITU-T H.273


class Obu(NamedTuple):
    """An open bitstream unit: its kind, and where its payload is."""

    kind: int
    temporal_layer: int
    spatial_layer: int
    has_layers: bool
    start: int
    stop: int


class SequenceHeader(NamedTuple):
    """A sequence header (AV1 specification, 5.5).

    Attributes:
        reduced: whether the stream is one still picture with the shortest header.
        layers: operating_point_idc of each operating point.
        removal_layers: those of the layers whose frames say when they leave the buffer.
        removal_bits, presentation_bits: bits of times in frame headers; zero if there are none.
        id_bits, id_difference_bits: bits of frame ids and their differences; zero if there are none.
        screen_content, integer_motion: whether tools are on, or CHOSEN_BY_FRAME.
        order_bits: bits of order hints.
        picture: format of the pictures.
    """

    reduced: bool
    layers: tuple[int, ...]
    has_decoder_model: bool
    removal_layers: tuple[int, ...]
    removal_bits: int
    presentation_bits: int
    id_bits: int
    id_difference_bits: int
    screen_content: int
    integer_motion: int
    order_bits: int
    picture: PictureFormat


def units_of_record(config: bytes) -> bytes:
    """Return the OBUs in an av1C record, or in data that consists of OBUs alone."""
    return config[_RECORD_HEADER:] if config[:1] == _RECORD_MARKER else config


def first_sequence(units: bytes) -> SequenceHeader | None:
    """Return the first sequence header among these OBUs; None if there is none that can be read."""
    try:
        for obu in iterate_obus(units):
            if obu.kind == SEQUENCE_HEADER:
                return read_sequence_header(units[obu.start : obu.stop])
    except ValueError:
        return None
    return None


def sequence_format(units: bytes) -> PictureFormat | None:
    """Return the format in the first sequence header among these OBUs; None if there is none that can be read."""
    sequence = first_sequence(units)
    return sequence.picture if sequence else None


def iterate_obus(payload: bytes | memoryview) -> Iterator[Obu]:
    """Yield the units of a packet (5.3). ValueError if they do not fill it."""
    position, end = 0, len(payload)
    while position < end:
        head = payload[position]
        if head & 0x80:
            raise ValueError("not an AV1 unit")
        layers = payload[position + 1] if head & 4 and position + 1 < end else 0
        position += 2 if head & 4 else 1
        size = end - position
        if head & 2:
            size = shift = 0
            while True:
                if position >= end or shift > 49:
                    raise ValueError("an AV1 unit without its end")
                byte = payload[position]
                position += 1
                size |= (byte & 127) << shift
                shift += 7
                if not byte & 128:
                    break
        if size < 0 or position + size > end:
            raise ValueError("an AV1 unit ends too late")
        yield Obu(head >> 3 & 15, layers >> 5, layers >> 3 & 3, bool(head & 4), position, position + size)
        position += size


@lru_cache(256)
def read_sequence_header(header: bytes) -> SequenceHeader:
    """Read sequence_header_obu (5.5.1). ValueError if it is damaged."""
    bits = BitReader.raw(header[:_LONGEST_SEQUENCE_HEADER])
    profile = bits.u(3)
    bits.u(1)
    reduced = bool(bits.u(1))
    layers: list[int] = []
    removal_layers: list[int] = []
    model = delay_bits = removal_bits = presentation_bits = 0
    equal_intervals = False
    if reduced:
        bits.u(5)
        layers.append(0)
    else:
        if bits.u(1):
            bits.u(64)
            equal_intervals = bool(bits.u(1))
            if equal_intervals:
                bits.ue()  # uvlc (4.10.3) is coded like ue
            model = bits.u(1)
            if model:
                delay_bits = bits.u(5) + 1
                bits.u(32)
                removal_bits, presentation_bits = bits.u(5) + 1, bits.u(5) + 1
        delays = bits.u(1)
        for _ in range(bits.u(5) + 1):
            layers.append(bits.u(12))
            if bits.u(5) > 7:
                bits.u(1)
            if model and bits.u(1):
                bits.u(2 * delay_bits + 1)
                removal_layers.append(layers[-1])
            if delays and bits.u(1):
                bits.u(4)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    size = bits.u(width_bits) + 1, bits.u(height_bits) + 1
    id_difference_bits = id_bits = 0
    if not reduced and bits.u(1):
        id_difference_bits = bits.u(4) + 2
        id_bits = bits.u(3) + 1 + id_difference_bits
    bits.u(3)
    screen_content = integer_motion = CHOSEN_BY_FRAME
    order_bits = 0
    if not reduced:
        bits.u(4)
        ordered = bits.u(1)
        bits.u(2 * ordered)
        screen_content = CHOSEN_BY_FRAME if bits.u(1) else bits.u(1)
        if screen_content and not bits.u(1):
            integer_motion = bits.u(1)
        order_bits = bits.u(3) + 1 if ordered else 0
    bits.u(3)
    return SequenceHeader(
        reduced,
        tuple(layers),
        bool(model),
        tuple(removal_layers),
        removal_bits,
        0 if equal_intervals else presentation_bits,
        id_bits,
        id_difference_bits,
        screen_content,
        integer_motion,
        order_bits,
        _read_color_config(bits, profile, size),
    )


def _read_color_config(bits: BitReader, profile: int, size: tuple[int, int]) -> PictureFormat:
    """Read color_config of the AV1 bitstream specification, 5.5.2, and return the format of pictures of this size."""
    deep = bits.u(1)
    depth = 12 if deep and profile == 2 and bits.u(1) else 10 if deep else 8
    is_gray = profile != 1 and bits.u(1)
    primaries, transfer, matrix = colors = (bits.u(8), bits.u(8), bits.u(8)) if bits.u(1) else (2, 2, 2)
    full = (not is_gray and colors == _SRGB) or bool(bits.u(1))
    if is_gray:
        chroma = "400"
    elif colors == _SRGB:
        chroma = "444"
    elif profile == 2 and depth == 12:
        chroma = ("420" if bits.u(1) else "422") if bits.u(1) else "444"
    else:
        chroma = ("420", "444", "422")[min(profile, 2)]
    # chroma_sample_position: 2 is at the first luma sample.
    site = _TOP_LEFT if chroma == "420" and bits.u(2) == 2 else 0
    return PictureFormat(
        *size, chroma, depth, matrix, full, color_primaries=primaries, color_transfer=transfer, chroma_site=site
    )
