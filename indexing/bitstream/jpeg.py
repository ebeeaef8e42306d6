"""Read the segments of JPEG pictures before their samples (ITU-T T.81, annex B): tables and the frame header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_PLAIN_FRAMES = {0xC0, 0xC1}  # baseline and extended sequential, Huffman coded
_APP0, _APP14, _COMMENT = 0xE0, 0xEE, 0xFE
# By the components' horizontal, then vertical sampling factors.
_CHROMA: dict[tuple[int, ...], str] = {(1, 1, 1, 1, 1, 1): "444", (2, 1, 1, 1, 1, 1): "422", (2, 1, 1, 2, 1, 1): "420"}


# Markers without a length (table B.1).
WITHOUT_LENGTH = frozenset([0x01, *range(0xD0, 0xD9)])
# All others, with their length.
_WITH_LENGTH = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]..", re.DOTALL)
SCAN, END = 0xDA, 0xD9
QUANTIZATION, HUFFMAN, LOSSLESS, PROGRESSIVE = 0xDB, 0xC4, 0xC3, 0xC2
START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {HUFFMAN, 0xC8, 0xCC}


def iterate_segments(picture: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Yield (marker, position) of a picture's segments. Bytes between them are skipped, as decoders do."""
    found = _WITH_LENGTH.search(picture)
    while found:
        position = found.start()
        yield picture[position + 1], position
        found = _WITH_LENGTH.search(picture, position + 2 + int.from_bytes(picture[position + 2 : position + 4], "big"))


def segments_before_scan(picture: bytes | memoryview) -> tuple[set[int], int | None]:
    """Return the markers of segments before a picture's samples, and where these begin; None if the bytes end before.

    Thumbnails are inside segments, so their tables do not count.
    """
    found: set[int] = set()
    for kind, position in iterate_segments(picture):
        if kind in (SCAN, END):
            return found, position
        found.add(kind)
    return found, None


def picture_height(picture: bytes | memoryview) -> int:
    """Return the height in a picture's frame header; 0 if these bytes have none."""
    for kind, position in iterate_segments(picture):
        if kind in START_OF_FRAME:
            return int.from_bytes(picture[position + 5 : position + 7], "big")
    return 0


class JpegTables(NamedTuple):
    """The tables that a picture has for its first scan.

    Attributes:
        quantization, codes: whether all tables that the scan uses are there, for quantization and for Huffman codes.
        some_codes: whether there are any tables of Huffman codes. Without any, libavcodec's own are used.
    """

    quantization: bool
    codes: bool
    some_codes: bool


def has_own_tables(picture: bytes | memoryview) -> bool | None:
    """Whether a JPEG picture uses only tables of its own; None as for ``tables_brought``."""
    tables = tables_brought(picture)
    return tables and tables.quantization and tables.codes


def tables_brought(picture: bytes | memoryview) -> JpegTables | None:
    """Return the tables of a JPEG picture; None if these bytes end before its samples begin."""
    telling: list[tuple[int, bytes]] = []
    for kind, position in iterate_segments(picture):
        if kind in START_OF_FRAME or kind in (QUANTIZATION, HUFFMAN, SCAN):
            size = int.from_bytes(picture[position + 2 : position + 4], "big")
            telling.append((kind, bytes(picture[position + 4 : position + 2 + size])))
        if kind in (SCAN, END):
            return _tables_in(tuple(telling)) if kind == SCAN else JpegTables(False, False, False)
    return None


@lru_cache(64)  # those of one encoder are usually the same
def _tables_in(segments: tuple[tuple[int, bytes], ...]) -> JpegTables:
    """Determine the tables for the last segment, the header of a scan (B.2.2 to B.2.4)."""
    quantization, codes = set[int](), set[int]()
    frame, quantized_by = 0, dict[int, int]()
    for kind, body in segments[:-1]:
        at = 0
        if kind in START_OF_FRAME:
            frame, quantized_by = kind, dict(zip(body[6::3], body[8::3], strict=False))
        while at < len(body) and kind == QUANTIZATION:
            quantization.add(body[at] & 15)
            at += 65 + 64 * (body[at] >> 4)
        while at < len(body) and kind == HUFFMAN:
            codes.add(body[at])  # 16 and more for AC coefficients
            at += 17 + sum(body[at + 1 : at + 17])
    _, scan = segments[-1]
    count = scan[0] if scan else 0
    components, selectors = scan[1 : 2 * count : 2], scan[2 : 2 * count + 1 : 2]
    used = {selector >> 4 for selector in selectors}
    # The first scan of a progressive picture has only DC coefficients, and so has every scan of a lossless one.
    if frame not in (PROGRESSIVE, LOSSLESS):
        used |= {16 | selector & 15 for selector in selectors}
    quantized = frame == LOSSLESS or {quantized_by.get(each, 0) for each in components} <= quantization
    return JpegTables(quantized, used <= codes, bool(codes))


class JpegFrame(NamedTuple):
    """A full-range YCbCr picture, as in JFIF.

    Attributes:
        width, height: size in pixels.
        chroma: ``"444"``, ``"422"`` or ``"420"``.
        usual: whether its sampling factors are the smallest for that, as nearly all encoders write them.
    """

    width: int
    height: int
    chroma: str
    usual: bool


def read_jpeg_frame(head: bytes) -> JpegFrame | None:
    """Read the frame header in a picture's first bytes; None for other kinds of JPEG, such as interlaced ones."""
    position = 2
    if head[:2] != b"\xff\xd8":
        return None
    while position + 4 <= len(head):
        if head[position] != 0xFF:
            return None
        kind, size = head[position + 1], int.from_bytes(head[position + 2 : position + 4], "big")
        segment = head[position + 4 : position + 2 + size]
        if kind in _PLAIN_FRAMES:
            return _read_frame(segment)
        if kind in (SCAN, _APP14) or size < 2 or (kind == _COMMENT and b"CS=" in segment):
            return None
        if kind == _APP0 and segment[:4] == b"AVI1" and segment[4:5] != b"\0":
            return None  # fields
        position += 2 + size
    return None


def _read_frame(segment: bytes) -> JpegFrame | None:
    if len(segment) < 15 or segment[0] != 8 or segment[5] != 3 or segment[6:15:3] == b"RGB":
        return None
    across = [segment[at] >> 4 for at in (7, 10, 13)]
    down = [segment[at] & 15 for at in (7, 10, 13)]
    # Only the ratio of the factors matters: if all are even, all can be halved.
    chroma = _CHROMA.get((*_halved(across), *_halved(down)))
    height, width = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
    return JpegFrame(width, height, chroma, (*across, *down) in _CHROMA) if chroma else None


def _halved(factors: list[int]) -> list[int]:
    return [factor // 2 for factor in factors] if not any(factor % 2 for factor in factors) else factors
