"""Walk the boxes of ISO/IEC 14496-12 (mp4, mov, 3gp) without trusting their sizes or places."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from videoloader.errors import IndexingError
from videoloader.indexing.limits import beyond, current_limits
from videoloader.indexing.sources.base import ByteSource

_HEADER = struct.Struct(">I4s")
_LARGE_SIZE = struct.Struct(">Q")
# The boxes of tables that are compressed by zlib, as libavformat takes them, up to the size that they claim to have.
_COMPRESSED = re.compile(rb"dcomzlib.{4}cmvd(.{4})", re.DOTALL)


# The boxes of a traf, in the order in which libavformat needs them.
OF_TRACK_FRAGMENT = (b"tfhd", b"tfdt", b"trun")
# The boxes that decide which frames there are, and others that libavformat enters, by the box that each belongs into;
# b"" is the file. libavformat reads each of them wherever it comes.
_PLACES = {
    b"": (b"moov", b"moof", b"mdat", b"sidx"),
    b"moov": (b"mvhd", b"trak", b"mvex", b"udta", b"cmov"),
    b"trak": (b"tkhd", b"edts", b"mdia", b"tref", b"udta"),
    b"edts": (b"elst",),
    b"mdia": (b"mdhd", b"hdlr", b"minf"),
    b"minf": (b"hdlr", b"dinf", b"stbl"),
    b"dinf": (b"dref",),
    b"stbl": (b"stsd", b"stts", b"ctts", b"stss", b"stps", b"stsc", b"stsz", b"stz2", b"stco", b"co64"),
    b"mvex": (b"trex",),
    b"moof": (b"traf",),
    b"traf": OF_TRACK_FRAGMENT,
}
_DECISIVE = frozenset(chain.from_iterable(_PLACES.values()))
_MISPLACED = {place: _DECISIVE - set(kinds) for place, kinds in _PLACES.items()}
_NONE: frozenset[bytes] = frozenset()
# libavformat reads tables that come once more, too, by rules of its own.
_ONLY_ONCE = _DECISIVE - {b"moof", b"mdat", b"sidx", b"trak", b"trex", b"traf", b"trun", b"tref", b"udta"}


def is_misplaced(kind: bytes) -> bool:
    """Whether a box that belongs into others lies in none."""
    return kind in _MISPLACED[b""]


class NotPlainError(Exception):
    """A box does not fit into the one around it, or lies in the wrong place. libavformat reads it all the same."""


class Box(NamedTuple):
    """A box in a buffer: its four-character type and the range of its payload."""

    type: bytes
    start: int
    stop: int


# ``Box(…)`` without the Python function that named tuples have for it.
_box: Callable[[tuple[bytes, int, int]], Box] = partial(tuple.__new__, Box)


def iterate_boxes(
    data: bytes, start: int, stop: int, inside: bytes | None = None, *, is_cut: bool = False
) -> Iterator[Box]:
    """Yield the boxes that lie side by side in ``data[start:stop]``.

    Args:
        data: a buffer.
        start, stop: range of the boxes.
        inside: type of the box that they belong into; None if it may have boxes of any type.
        is_cut: whether the data may end before the boxes do, so that the last one need not fit.

    Raises:
        NotPlainError: a box does not fit, or lies in the wrong place.
    """
    misplaced = _NONE if inside is None else _MISPLACED[inside]
    while start + 8 <= stop:
        size, kind = _HEADER.unpack_from(data, start)
        payload = start + 8
        if size == 1:
            payload += 8
            size = _LARGE_SIZE.unpack_from(data, start + 8)[0] if payload <= stop else 0
        end = stop if size == 0 else start + size
        if end < payload or end > stop:
            if is_cut:
                return
            raise NotPlainError
        if kind in misplaced:
            raise NotPlainError
        yield Box(kind, payload, end)
        start = end


def children(data: bytes, box: Box, skip: int = 0) -> dict[bytes, Box]:
    """Return the first child of each type. ``skip`` bytes at the start of the payload belong to the box itself.

    Raises:
        NotPlainError: a child does not fit, lies in the wrong place, or comes once more although it should not.
    """
    found: dict[bytes, Box] = {}
    start, stop = box.start + skip, box.stop
    # Boxes with plain sizes, read here without the cost of a generator: a file has about fifty.
    while start + 8 <= stop:
        size, kind = _HEADER.unpack_from(data, start)
        end = start + size
        if size < 8 or end > stop:
            break
        if kind not in found:
            found[kind] = _box((kind, start + 8, end))
        elif kind in _ONLY_ONCE:
            raise NotPlainError
        start = end
    for child in iterate_boxes(data, start, stop):
        if found.setdefault(child.type, child) is not child and child.type in _ONLY_ONCE:
            raise NotPlainError
    if not _MISPLACED.get(box.type, _NONE).isdisjoint(found):
        raise NotPlainError
    return found


def read_decode_time(data: bytes, tfdt: Box) -> int:
    """Return the decode time at which a track's fragment begins, from its ``tfdt`` box."""
    # libavformat takes all versions but the first for the one with eight bytes.
    return int.from_bytes(data[tfdt.start + 4 : tfdt.start + (12 if data[tfdt.start] else 8)], "big")


# Bytes to read at a time for the headers of top-level boxes.
HEADERS_READ = 96


class FileBox(NamedTuple):
    """A top-level box of a file: its type, where its header starts, its payload's range, whether the end is missing."""

    type: bytes
    header: int
    start: int
    stop: int
    is_cut: bool


def iterate_file_boxes(source: ByteSource, head: bytes = b"") -> Iterator[FileBox]:
    """Yield the top-level boxes of a file, reading only headers. A box that runs past the file's end stops there.

    Args:
        source: the file.
        head: its first bytes, if they have been read already.
    """
    position = read_at = 0
    read = head
    while position + 8 <= source.size:
        # The first boxes are short, and their headers close together.
        header = read[position - read_at : position - read_at + 16]
        if len(header) < 16:
            read, read_at = source.read(position, HEADERS_READ), position
            header = read[:16]
        size, kind = _HEADER.unpack_from(header)
        start = position + 8
        if size == 1 and len(header) == 16:
            (size,) = _LARGE_SIZE.unpack_from(header, 8)
            start += 8
        end = position + size if size else source.size
        stop = min(end, source.size)
        if stop < start:
            return
        yield FileBox(kind, position, start, stop, end > stop)
        position = stop


def check_compressed(moov: bytes, source: str) -> None:
    """Check tables that libavformat unpacks into memory, as much of it as they claim.

    Raises:
        UnsupportedError: they claim more than allowed.
        IndexingError: there are compressed tables in them again.
    """
    most = current_limits().member_bytes
    for found in _COMPRESSED.finditer(moov):
        if (size := int.from_bytes(found[1], "big")) > most:
            raise beyond("member_bytes", f"has compressed tables of {size} bytes", source)
        try:
            tables = zlib.decompressobj().decompress(moov[found.end() :], size + 1)
        except zlib.error:
            continue
        if _COMPRESSED.search(tables):
            raise IndexingError("has compressed tables in compressed tables", source)
