"""The boxes of an mp4 file, taken apart and put together again around changed ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from mp4_writing import box

from lies.registry import Rng, lie

_NESTED = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"mvex", b"moof", b"traf"}
TABLES = (b"mdia", b"minf", b"stbl")


def boxes(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[tuple[bytes, int, int, int]]:
    """(kind, start, start of the payload, stop) of each box; what is cut off or of a wrong size ends them."""
    stop = len(data) if stop is None else stop
    while start + 8 <= stop:
        size, kind = struct.unpack_from(">I4s", data, start)
        header = 8
        if size == 1 and start + 16 <= stop:
            size, header = struct.unpack_from(">Q", data, start + 8)[0], 16
        size = stop - start if size == 0 else size
        if size < header or start + size > stop:
            return
        yield kind, start, start + header, start + size
        start += size


def every_box(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[int]:
    """Where each box starts, and each inside of it."""
    for kind, at, begin, end in boxes(data, start, stop):
        yield at
        if kind in _NESTED:
            yield from every_box(data, begin, end)


@lie("mp4")
def box_size_wrong(data: bytes, rng: Rng) -> bytes | None:
    """A bit of a box's size is another one, so that the box is longer or shorter than what lies in it."""
    starts = [*every_box(data)]
    if not starts:
        return None
    at = int(rng.choice(starts)) + int(rng.integers(4))
    return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


def child(data: bytes, *path: bytes) -> bytes | None:
    """The payload of the first box at a path, below a payload."""
    for kind in path:
        found = next((data[begin:stop] for name, _, begin, stop in boxes(data) if name == kind), None)
        if found is None:
            return None
        data = found
    return data


def with_child(data: bytes, path: tuple[bytes, ...], payload: bytes | None) -> bytes:
    """A payload in which the box at a path is replaced, added, or left out (None)."""
    kind, rest = path[0], path[1:]
    parts, found = [], False
    for name, start, begin, stop in boxes(data):
        if name != kind or found:
            parts.append(data[start:stop])
            continue
        found = True
        inner = with_child(data[begin:stop], rest, payload) if rest else payload
        parts.append(b"" if inner is None else box(kind, inner))
    if not found and payload is not None:
        parts.append(box(kind, with_child(b"", rest, payload) if rest else payload))
    return b"".join(parts)


def change_track(data: bytes, change: Callable[[bytes], bytes | None]) -> bytes | None:
    """The file with the payload of its video's trak changed.

    The new moov goes to the end and the old one becomes free space, so that no chunk moves; in a fragmented file, whose
    moov must stay in front, what tells where chunks are moves with them. None where there is no such track.
    """
    moov = next(((start, begin, stop) for kind, start, begin, stop in boxes(data) if kind == b"moov"), None)
    if moov is None:
        return None
    start, begin, stop = moov
    parts, changed = [], False
    for kind, at, inside, end in boxes(data, begin, stop):
        track = data[inside:end]
        if kind == b"trak" and not changed and (child(track, b"mdia", b"hdlr") or b"")[8:12] == b"vide":
            new = change(track)
            if new is None:
                return None
            parts.append(box(b"trak", new))
            changed = True
        else:
            parts.append(data[at:end])
    if not changed:
        return None
    new_moov = box(b"moov", b"".join(parts))
    if any(kind == b"moof" for kind, *_ in boxes(data)):
        moved = bytearray(data[:start] + new_moov + data[stop:])
        for number, wide in _positions(bytes(moved)):
            value = int.from_bytes(moved[number : number + wide], "big")
            moved[number : number + wide] = (value + len(new_moov) - (stop - start)).to_bytes(wide, "big")
        return bytes(moved)
    return data[: start + 4] + b"free" + data[start + 8 :] + new_moov


def _positions(data: bytes) -> Iterator[tuple[int, int]]:
    """(where it stands, its bytes) of each number that says where chunks are, counted from the file's first byte."""
    for kind, _, begin, stop in boxes(data):
        for name, _, inside, end in boxes(data, begin, stop) if kind in (b"moov", b"moof") else ():
            if kind == b"moof" and name == b"traf":
                headers = (at for each, _, at, _ in boxes(data, inside, end) if each == b"tfhd")
                yield from ((at + 8, 8) for at in headers if data[at + 3] & 1)
            elif name == b"trak":
                for table, at, last in _inside(data, inside, end, TABLES):
                    yield from ((each, 4) for each in range(at + 8, last, 4) if table == b"stco")


def _inside(data: bytes, start: int, stop: int, path: tuple[bytes, ...]) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start of the payload, stop) of the boxes at the end of a path."""
    for kind, _, begin, end in boxes(data, start, stop):
        if not path:
            yield kind, begin, end
        elif kind == path[0]:
            yield from _inside(data, begin, end, path[1:])


def change_table(
    data: bytes, kind: bytes, change: Callable[[bytes | None, int], bytes | None], *, remove: bool = False
) -> bytes | None:
    """The file with one table of its video's samples changed.

    Args:
        data: of the file.
        kind: of the box in stbl.
        change: from the payload (None without one) and the number of samples to the new payload.
        remove: take None for an answer, and the box away.
    """

    def change_it(track: bytes) -> bytes | None:
        tables = child(track, *TABLES)
        samples = child(tables or b"", b"stsz")
        count = struct.unpack_from(">I", samples, 8)[0] if samples and len(samples) >= 12 else 0
        if tables is None or count < 2:
            return None
        old = child(tables, kind)
        new = change(old, count)
        if new is None and (not remove or old is None):
            return None
        return with_child(track, (*TABLES, kind), new)

    return change_track(data, change_it)
