"""Read the headers of MPEG-4 part 2: the video object layer, and VOPs (ISO/IEC 14496-2, 6.2.3 and 6.2.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.nal import iterate_nals

VOP = b"\0\0\1\xb6"
GROUP_START = b"\0\0\1\xb3"
FIRST_LAYER, LAST_LAYER = 0x20, 0x2F
I_VOP, B_VOP = 0, 2
LARGEST_UNCODED = 10  # bytes of a packet whose picture may not be coded
# The encoder's signature, and the letter which says that it packs several VOPs into one packet.
DIVX = re.compile(rb"DivX(\d+)(?:Build|b)(\d+)(p?)")
_SIMPLE, _ADVANCED_SIMPLE = 1, 17
_ASPECTS = {2: Fraction(12, 11), 3: Fraction(10, 11), 4: Fraction(16, 11), 5: Fraction(40, 33)}
_EXTENDED_ASPECT = 15


class Layer(NamedTuple):
    """A video object layer.

    Attributes:
        width, height: size in pixels.
        sample_aspect_ratio: width of a pixel over its height.
        late: whether references are shown one reference later (low_delay is 0).
        resolution: time units per second.
        increment_bits: bits of vop_time_increment.
        interlaced: whether VOPs may be interlaced.
    """

    width: int
    height: int
    sample_aspect_ratio: Fraction
    late: bool
    resolution: int
    increment_bits: int
    interlaced: bool


class Vop(NamedTuple):
    kind: int
    seconds: int
    increment: int
    coded: bool
    clock: int | None  # seconds, from a group header before it
    start: int  # position of its start code in the packet


def is_packed(headers: bytes) -> bool:
    """Whether headers say that packets may hold several VOPs."""
    signature = DIVX.search(headers)
    return bool(signature and signature[3])


def find_layer(config: bytes) -> Layer | None:
    """Return the first video object layer among these headers; None if there is none, or none of the plain kind."""
    for code, start, stop in sections(config):
        if FIRST_LAYER <= code <= LAST_LAYER:
            try:
                return read_layer(config[start:stop])
            except ValueError:
                return None
    return None


def sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (code, start, stop) of the data after each start code, up to the first VOP."""
    for start, stop in iterate_nals(data, 0):
        if data[start] == VOP[3]:
            return
        yield data[start], start + 1, stop


@lru_cache(64)  # streams repeat it before every keyframe
def read_layer(payload: bytes) -> Layer | None:
    """Read the first fields of VideoObjectLayer; None for shapes, and if decoders must guess the delay."""
    bits = BitReader.raw(payload[:64])
    _, kind = map(bits.u, (1, 8))
    if bits.u(1):
        bits.u(7)
    aspect_code = bits.u(4)
    aspect = _ASPECTS.get(aspect_code, Fraction(1))
    if aspect_code == _EXTENDED_ASPECT:
        width, height = bits.u(8), bits.u(8)
        aspect = Fraction(width, height) if width and height else Fraction(1)
    if bits.u(1):
        bits.u(2)
        late = not bits.u(1)
        if bits.u(1):
            bits.u(79)
    elif kind in (_SIMPLE, _ADVANCED_SIMPLE):
        late = False
    else:
        return None
    shape, _, resolution = map(bits.u, (2, 1, 16))
    if shape or not resolution:
        return None
    increment_bits = max(1, (resolution - 1).bit_length())
    bits.u(1)
    if bits.u(1):
        bits.u(increment_bits)
    _, width, _, height, _, interlaced = map(bits.u, (1, 13, 1, 13, 1, 1))  # markers in between
    return Layer(width, height, aspect, late, resolution, increment_bits, bool(interlaced))


def group_seconds(header: bytes) -> int:
    """Return the time in the first three bytes of a group header after its start code."""
    bits = int.from_bytes(header, "big")
    return (bits >> 6 & 63) + 60 * ((bits >> 13 & 63) + 60 * (bits >> 19))


def read_vop(packet: bytes, start: int, layer: Layer, clock: int | None) -> Vop:
    # This many bytes contain the fields read here, unless times are minutes apart.
    value = int.from_bytes(packet[start + 4 : start + 24].ljust(20, b"\0"), "big")
    kind, left, seconds = value >> 158, 157, 0
    while value >> left & 1:
        seconds, left = seconds + 1, left - 1
    increment_bits = layer.increment_bits
    left -= increment_bits + 3
    if left < 0 or len(packet) < start + 6:
        raise ValueError("a VOP header ends too early")
    fields = value >> left
    # There are markers around the increment; without the second one, decoders guess its length.
    if not fields & 2:
        raise ValueError("a VOP header has no marker bit")
    return Vop(kind, seconds, fields >> 2 & ((1 << increment_bits) - 1), bool(fields & 1), clock, start)
