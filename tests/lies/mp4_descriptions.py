"""Lies of an mp4 file's sample descriptions."""

from __future__ import annotations

import struct
from collections.abc import Callable

from mp4_writing import box
from mp4_writing import table as write_table

from lies.mp4_boxes import TABLES, boxes, change_track, child, with_child
from lies.registry import Rng, lie

_STSD, _STSC = (*TABLES, b"stsd"), (*TABLES, b"stsc")
# Bytes of a visual sample entry before the boxes in it.
_ENTRY = 78


def _entry_changed(data: bytes, change: Callable[[bytes, bytes], tuple[bytes, bytes] | None]) -> bytes | None:
    """The file with its first sample entry (kind, payload) changed."""

    def change_it(track: bytes) -> bytes | None:
        table = child(track, *_STSD)
        if table is None:
            return None
        first = next(boxes(table, 8), None)
        if first is None or first[3] - first[2] < _ENTRY:
            return None
        kind, _, begin, stop = first
        changed = change(kind, table[begin:stop])
        if changed is None:
            return None
        return with_child(track, _STSD, table[:8] + box(*changed) + table[stop:])

    return change_track(data, change_it)


def _sized(data: bytes, size: Callable[[int, int], tuple[int, int]]) -> bytes | None:
    def change(kind: bytes, entry: bytes) -> tuple[bytes, bytes]:
        width, height = size(*struct.unpack_from(">HH", entry, 24))
        return kind, entry[:24] + struct.pack(">HH", width % 65536, height % 65536) + entry[28:]

    return _entry_changed(data, change)


@lie("mp4")
def stsd_cropped(data: bytes, rng: Rng) -> bytes | None:
    """A little smaller than coded: where the codec knows no cropping, some decoders crop by it."""
    less, lower = int(rng.integers(0, 16)), int(rng.integers(0, 16))
    return _sized(data, lambda width, height: (width - less, height - lower))


@lie("mp4")
def stsd_larger(data: bytes, rng: Rng) -> bytes | None:
    more = int(rng.integers(1, 16))
    return _sized(data, lambda width, height: (width + more, height + more))


@lie("mp4")
def stsd_size(data: bytes, rng: Rng) -> bytes | None:
    size = [(0, 0), (16, 16), (640, 480), (4096, 2160)][int(rng.integers(4))]
    return _sized(data, lambda width, height: size)


_OTHER_NAMES = {
    b"avc1": b"avc3", b"avc3": b"avc1", b"hvc1": b"hev1", b"hev1": b"hvc1", b"mp4v": b"mp4v", b"vp08": b"vp09",
}  # fmt: skip


@lie("mp4")
def stsd_other_name(data: bytes, rng: Rng) -> bytes | None:
    return _entry_changed(data, lambda kind, entry: (_OTHER_NAMES.get(kind, kind), entry))


@lie("mp4")
def stsd_depth(data: bytes, rng: Rng) -> bytes | None:
    """Another depth: QuickTime's codecs tell colours from grays by it."""
    depth = int(rng.choice([1, 8, 16, 24, 32, 33, 40]))
    return _entry_changed(data, lambda kind, entry: (kind, entry[:74] + struct.pack(">H", depth) + entry[76:]))


_RECORDS = (b"avcC", b"hvcC", b"av1C", b"vpcC", b"esds", b"glbl")


@lie("mp4")
def stsd_without_record(data: bytes, rng: Rng) -> bytes | None:
    """The decoder's configuration record is away."""

    def change(kind: bytes, entry: bytes) -> tuple[bytes, bytes] | None:
        kept = [entry[at:stop] for name, at, _, stop in boxes(entry, _ENTRY) if name not in _RECORDS]
        return kind, entry[:_ENTRY] + b"".join(kept)

    return _entry_changed(data, change)


def _with_second_entry(data: bytes, rng: Rng, change: Callable[[bytes], bytes]) -> bytes | None:
    """The file with a changed copy of its sample entry, in force for some samples; each becomes a chunk of its own."""

    def change_it(track: bytes) -> bytes | None:
        table, sizes = child(track, *_STSD), child(track, *TABLES, b"stsz")
        offsets = _sample_offsets(track)
        if table is None or offsets is None or len(offsets) < 2 or struct.unpack_from(">I", table, 4)[0] != 1:
            return None
        kind, _, begin, stop = next(boxes(table, 8))
        both = struct.pack(">II", 0, 2) + table[8:stop] + box(kind, change(table[begin:stop]))
        switch, back = sorted(int(number) for number in rng.integers(1, len(offsets) + 1, 2))
        rows = [(n + 1, 1, 2 if switch <= n < max(back, switch + 1) else 1) for n in range(len(offsets))]
        assert sizes is not None
        track = with_child(track, _STSD, both)
        track = with_child(track, (*TABLES, b"co64"), None)
        track = with_child(track, (*TABLES, b"stco"), write_table(b"stco", "I", [(at,) for at in offsets])[8:])
        return with_child(track, _STSC, write_table(b"stsc", "III", rows)[8:])

    return change_track(data, change_it)


def _sample_offsets(track: bytes) -> list[int] | None:
    """Where each sample stands in the file; None without 32-bit offsets."""
    chunks, runs, sizes = (child(track, *TABLES, kind) for kind in (b"stco", b"stsc", b"stsz"))
    if chunks is None or runs is None or sizes is None or len(sizes) < 12:
        return None
    same, count = struct.unpack_from(">II", sizes, 4)
    each = [same] * count if same else list(struct.unpack(f">{count}I", sizes[12 : 12 + 4 * count]))
    starts = [struct.unpack_from(">I", chunks, at)[0] for at in range(8, len(chunks) - 3, 4)]
    rows = [struct.unpack_from(">II", runs, at) for at in range(8, len(runs) - 11, 12)]
    offsets: list[int] = []
    for number, (first, samples) in enumerate(rows):
        last = rows[number + 1][0] - 1 if number + 1 < len(rows) else len(starts)
        for start in starts[first - 1 : last]:
            for _ in range(samples):
                if len(offsets) == count:
                    break
                offsets.append(start)
                start += each[len(offsets) - 1]
    return offsets if len(offsets) == count else None


@lie("mp4")
def stsd_twice(data: bytes, rng: Rng) -> bytes | None:
    """A second sample entry like the first."""
    return _with_second_entry(data, rng, lambda entry: entry)


@lie("mp4")
def stsd_second_size(data: bytes, rng: Rng) -> bytes | None:
    """A second sample entry, of another size."""
    return _with_second_entry(data, rng, lambda entry: entry[:24] + struct.pack(">HH", 64, 48) + entry[28:])


@lie("mp4")
def stsd_second_without_record(data: bytes, rng: Rng) -> bytes | None:
    """A second sample entry without a configuration record."""

    def change(entry: bytes) -> bytes:
        kept = [entry[at:stop] for name, at, _, stop in boxes(entry, _ENTRY) if name not in _RECORDS]
        return entry[:_ENTRY] + b"".join(kept)

    return _with_second_entry(data, rng, change)


@lie("mp4", damages=True)
def avcc_emptied(data: bytes, rng: Rng) -> bytes | None:
    """An avcC without parameter sets; right where they come in band."""

    def change(kind: bytes, entry: bytes) -> tuple[bytes, bytes] | None:
        parts = [
            box(name, entry[begin : begin + 5] + b"\xe0\0") if name == b"avcC" else entry[at:stop]
            for name, at, begin, stop in boxes(entry, _ENTRY)
        ]
        return kind, entry[:_ENTRY] + b"".join(parts)

    return _entry_changed(data, change)
