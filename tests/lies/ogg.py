"""Lies of Ogg files: granule positions, empty packets, pages that are missing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from lies.registry import Rng, few, lie


class _Page(NamedTuple):
    start: int
    lacing: int
    payload: int
    stop: int


def _pages(data: bytes) -> Iterator[_Page]:
    at = 0
    while data[at : at + 4] == b"OggS" and at + 27 <= len(data):
        count = data[at + 26]
        payload = at + 27 + count
        stop = payload + sum(data[at + 27 : payload])
        if stop > len(data):
            return
        yield _Page(at, at + 27, payload, stop)
        at = stop


def _table() -> list[int]:
    rows = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)
        rows.append(value & 0xFFFFFFFF)
    return rows


_CRC = _table()


def _sealed(page: bytes) -> bytes:
    """The page with its checksum."""
    value = 0
    for byte in page[:22] + bytes(4) + page[26:]:
        value = (value << 8 ^ _CRC[value >> 24 ^ byte]) & 0xFFFFFFFF
    return page[:22] + struct.pack("<I", value) + page[26:]


def _video_pages(data: bytes) -> list[_Page]:
    """Pages of the Theora stream after its headers."""
    pages = list(_pages(data))
    first = next((page for page in pages if data[page.payload : page.payload + 7] == b"\x80theora"), None)
    if first is None:
        return []
    serial = data[first.start + 14 : first.start + 18]
    mine = [page for page in pages if data[page.start + 14 : page.start + 18] == serial]
    return [page for page in mine if not data[page.payload] & 0x80]


@lie("ogg")
def granules_wrong(data: bytes, rng: Rng) -> bytes | None:
    """Pages that say another frame, or another keyframe, of their last packet."""
    pages, changed = _video_pages(data), bytearray(data)
    if not pages:
        return None
    for number in few(rng, len(pages)):
        page = pages[number]
        granule = struct.unpack_from("<q", data, page.start + 6)[0]
        if granule > 0:
            struct.pack_into("<q", changed, page.start + 6, max(granule + int(rng.choice([-64, -1, 1, 64, 640])), 0))
            changed[page.start : page.stop] = _sealed(bytes(changed[page.start : page.stop]))
    return bytes(changed)


@lie("ogg")
def packets_emptied(data: bytes, rng: Rng) -> bytes | None:
    """A packet of no bytes put into a page: the frame before is shown again."""
    pages = [page for page in _video_pages(data) if page.payload - page.lacing < 255]
    if not pages:
        return None
    parts, last = [], 0
    for number in few(rng, len(pages)):
        page = pages[number]
        head = data[page.start : page.lacing - 1] + bytes([data[page.lacing - 1] + 1])
        sizes = data[page.lacing : page.payload]
        # Behind any packet that ends here: a size below 255 ends one.
        ends = [at + 1 for at, size in enumerate(sizes) if size < 255]
        if not ends:
            continue
        at = ends[int(rng.integers(len(ends)))]
        new = head + sizes[:at] + b"\0" + sizes[at:] + data[page.payload : page.stop]
        parts += [data[last : page.start], _sealed(new)]
        last = page.stop
    return b"".join(parts) + data[last:]


@lie("ogg", damages=True)
def pages_dropped(data: bytes, rng: Rng) -> bytes | None:
    pages = _video_pages(data)
    if not pages:
        return None
    page = pages[int(rng.integers(len(pages)))]
    return data[: page.start] + data[page.stop :]


@lie("ogg")
def chained(data: bytes, rng: Rng) -> bytes | None:
    """The file after itself, under another serial number."""
    again = bytearray(data)
    for page in _pages(data):
        again[page.start + 14] ^= 0x5A
        again[page.start : page.stop] = _sealed(bytes(again[page.start : page.stop]))
    return data + bytes(again)
