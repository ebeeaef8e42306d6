"""Movie fragments (ISO/IEC 14496-12, 8.8): samples told of by moof boxes spread over the file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.mp4.boxes import Box, FileBox, children, iterate_boxes
from videoloader.indexing.mp4.samples import DISPOSABLE_FROM_DEPENDED_ON, Samples
from videoloader.indexing.sources import ByteSource

# Flags of tfhd, then of trun; sample flags.
_BASE_DATA_OFFSET, _DESCRIPTION, _DEFAULT_DURATION, _DEFAULT_SIZE, _DEFAULT_FLAGS = 0x1, 0x2, 0x8, 0x10, 0x20
_DEFAULT_BASE_IS_MOOF = 0x20000
_DATA_OFFSET, _FIRST_FLAGS, _DURATION, _SIZE, _FLAGS, _COMPOSITION = 0x1, 0x4, 0x100, 0x200, 0x400, 0x800
_NOT_SYNC, _DEPENDS_ON_OTHERS = 0x10000, 0x1000000


class Defaults(NamedTuple):
    """What samples of a track have unless their fragment or run says otherwise (trex, then tfhd)."""

    description: int = 1
    duration: int = 0
    size: int = 0
    flags: int = 0


def read_defaults(data: bytes, mvex: Box, track_id: int) -> Defaults:
    """The track's ``trex`` box."""
    for box in iterate_boxes(data, mvex.start, mvex.stop):
        if box.type == b"trex" and box.stop - box.start >= 24:
            track, *values = (int.from_bytes(data[i : i + 4], "big") for i in range(box.start + 4, box.start + 24, 4))
            if track == track_id:
                return Defaults(*values)
    return Defaults()


class _Clock:
    """Where the next run starts: decode time unless a tfdt says otherwise, and the last sample's time.

    ``bytes_left`` bounds the samples of all runs that have no bytes of their own in the tables.
    """

    def __init__(self, head: Samples, offset: int, file_size: int) -> None:
        self.offset = offset
        self.bytes_left = file_size
        self.last_dts = int(head.dts[-1]) if len(head.dts) else None
        step = int(head.dts[-1] - head.dts[-2]) if len(head.dts) > 1 else 0
        self.next_dts = self.last_dts + step if self.last_dts is not None else -offset


def read_fragments(
    source: ByteSource, moofs: list[FileBox], track_id: int, defaults: Defaults, head: Samples, time_offset: int
) -> Samples:
    """The samples of a track from the tables in moov and from all movie fragments after it.

    Args:
        source: the file.
        moofs: the file's moof boxes, in order.
        track_id: of the track.
        defaults: of the track, from ``trex``.
        head: the samples that moov itself tells of; often none.
        time_offset: what the edit list takes off all decode times.

    Raises:
        IndexingError: a run tells of more samples than it has bytes for, or of empty ones.
    """
    runs = [head]
    clock = _Clock(head, time_offset, source.size)
    shift = 0
    for moof in moofs:
        data = source.read(moof.header, moof.stop - moof.header)
        implicit = moof.header
        fragment: list[Samples] = []
        for traf in iterate_boxes(data, moof.start - moof.header, len(data)):
            if traf.type == b"traf":
                new, implicit = _read_track_fragment(
                    data, traf, moof.header, implicit, track_id, defaults, clock, source
                )
                fragment += new
        # Decode times of fragments are absolute, so unlike in moov the shift that keeps pts >= dts moves
        # the pts: libavformat's timeline, and the one its users' annotations are made on.
        shift = max([shift, *(-int(run.composition.min(initial=0)) for run in fragment)])
        runs += [run._replace(composition=run.composition + shift) for run in fragment]
    columns = zip(*runs, strict=True)
    return Samples(*(np.concatenate(column) for column in columns))


def _read_track_fragment(
    data: bytes,
    traf: Box,
    moof_offset: int,
    implicit: int,
    track_id: int,
    defaults: Defaults,
    clock: _Clock,
    source: ByteSource,
) -> tuple[list[Samples], int]:
    """The runs of one traf if it is the track's; and where data without a stated offset goes on after it."""
    boxes = children(data, traf)
    if b"tfhd" not in boxes:
        raise IndexingError(f"the fragment at byte {moof_offset} has a traf without tfhd", source.name)
    cursor = boxes[b"tfhd"].start

    def number(size: int = 4, signed: bool = False) -> int:
        nonlocal cursor
        cursor += size
        return int.from_bytes(data[cursor - size : cursor], "big", signed=signed)

    flags = number() & 0xFFFFFF
    track = number()
    base = number(8) if flags & _BASE_DATA_OFFSET else moof_offset if flags & _DEFAULT_BASE_IS_MOOF else implicit
    description = number() if flags & _DESCRIPTION else defaults.description
    duration = number() if flags & _DEFAULT_DURATION else defaults.duration
    size = number() if flags & _DEFAULT_SIZE else defaults.size
    sample_flags = number() if flags & _DEFAULT_FLAGS else defaults.flags
    local = Defaults(description, duration, size, sample_flags)
    if b"tfdt" in boxes and track == track_id:
        tfdt = boxes[b"tfdt"]
        wide = data[tfdt.start] == 1
        clock.next_dts = int.from_bytes(data[tfdt.start + 4 : tfdt.start + (12 if wide else 8)], "big") - clock.offset
    runs = []
    position = base
    for box in iterate_boxes(data, traf.start, traf.stop):
        if box.type == b"trun":
            run, position = _read_run(data, box, base, position, local, clock, track == track_id, source)
            if track == track_id:
                runs.append(run)
    return runs, position


def _read_run(
    data: bytes,
    trun: Box,
    base: int,
    position: int,
    defaults: Defaults,
    clock: _Clock,
    of_track: bool,
    source: ByteSource,
) -> tuple[Samples, int]:
    """One trun as columns, and the offset after its last sample. Of other tracks only the offset is right."""
    flags = int.from_bytes(data[trun.start + 1 : trun.start + 4], "big")
    count = int.from_bytes(data[trun.start + 4 : trun.start + 8], "big")
    cursor = trun.start + 8
    if flags & _DATA_OFFSET:
        position = base + int.from_bytes(data[cursor : cursor + 4], "big", signed=True)
        cursor += 4
    first_flags = defaults.flags
    if flags & _FIRST_FLAGS:
        first_flags = int.from_bytes(data[cursor : cursor + 4], "big")
        cursor += 4
    fields = [
        (name, ">i4" if name == "composition" else ">u4")
        for name, bit in (("duration", _DURATION), ("size", _SIZE), ("flags", _FLAGS), ("composition", _COMPOSITION))
        if flags & bit
    ]
    row = np.dtype(fields)
    # Rows without fields have no bytes behind them; the file's size still bounds how many there can be.
    fits = (trun.stop - cursor) // row.itemsize if fields else clock.bytes_left // max(defaults.size, 1)
    if count > fits:
        raise IndexingError(
            f"the run at byte {trun.start} of a fragment has {count} samples in the space of {max(fits, 0)}",
            source.name,
        )
    if not fields:
        clock.bytes_left -= count * max(defaults.size, 1)
    table = np.frombuffer(data, row, count, cursor) if fields else np.empty(count, row)

    def column(name: str, default: int) -> npt.NDArray[np.int64]:
        return table[name].astype(np.int64) if name in (row.names or ()) else np.full(count, default, np.int64)

    sizes = column("size", defaults.size)
    if count and (sizes.min() <= 0 or sizes.max() > source.size):
        raise IndexingError(f"a fragment's sample has {int(sizes.min())}…{int(sizes.max())} bytes", source.name)
    durations = column("duration", defaults.duration)
    sample_flags = column("flags", defaults.flags)
    if not flags & _FLAGS:
        sample_flags[:1] = first_flags
    ends = np.cumsum(sizes)
    dts = np.zeros(count, np.int64)
    discarded = np.zeros(count, np.bool_)
    if of_track and count:
        dts[1:] = np.cumsum(durations[:-1])
        dts += clock.next_dts
        # A fragment that goes back in time repeats what was shown already.
        if clock.last_dts is not None:
            discarded = dts <= clock.last_dts
        clock.next_dts, clock.last_dts = int(dts[-1] + durations[-1]), int(dts[-1])
    run = Samples(
        position + ends - sizes,
        sizes.astype(np.int32),
        dts,
        column("composition", 0),
        (sample_flags & (_NOT_SYNC | _DEPENDS_ON_OTHERS)) == 0,
        DISPOSABLE_FROM_DEPENDED_ON[(sample_flags >> 22) & 3],
        np.full(count, min(max(defaults.description - 1, 0), 255), np.uint8),
        discarded,
    )
    return run, position + int(ends[-1]) if count else position
