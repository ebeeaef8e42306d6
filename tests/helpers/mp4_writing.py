"""Writes and replaces boxes of mp4 files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts")


def box(kind: bytes, payload: bytes = b"", *, wide: bool = False) -> bytes:
    """A box with its header; ``wide`` gives it a 64-bit size."""
    if wide:
        return struct.pack(">I4sQ", 1, kind, 16 + len(payload)) + payload
    return struct.pack(">I4s", 8 + len(payload), kind) + payload


def table(kind: bytes, row: str, rows: Sequence[Iterable[int]], *, version: int = 0, count: int | None = None) -> bytes:
    """A full box of rows after their count, which may be wrong."""
    body = b"".join(struct.pack(">" + row, *values) for values in rows)
    return box(kind, struct.pack(">B3xI", version, len(rows) if count is None else count) + body)


def replace_box(data: bytes, path: Sequence[bytes], new: bytes) -> bytes:
    """The boxes of ``data`` with the one at ``path`` replaced, or appended if there is none.

    Sizes of enclosing boxes are corrected, but not the offsets in stco, so moov must be the file's last box.
    """
    parts, position, found = [], 0, False
    while position < len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        part = data[position : position + size]
        if kind == path[0] and not found:
            found = True
            part = new if len(path) == 1 else box(kind, replace_box(part[8:], path[1:], new))
        parts.append(part)
        position += size
    if not found:
        parts.append(new if len(path) == 1 else box(path[0], replace_box(b"", path[1:], new)))
    return b"".join(parts)


def find_box(data: bytes, path: Sequence[bytes]) -> tuple[int, int]:
    """(start, stop) of the payload of the box at ``path``."""
    start, stop = 0, len(data)
    for wanted in path:
        while True:
            size, kind = struct.unpack_from(">I4s", data, start)
            if kind == wanted:
                start, stop = start + 8, start + size
                break
            start += size
            assert start < stop, f"no {wanted!r}"
    return start, stop


TRACK = (b"moov", b"trak")
TABLES = (*TRACK, b"mdia", b"minf", b"stbl")
