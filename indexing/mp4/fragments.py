"""Read the samples of movie fragments (ISO/IEC 14496-12, 8.8), in moof boxes spread over the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.mp4.boxes import (
    OF_TRACK_FRAGMENT,
    Box,
    FileBox,
    NotPlainError,
    iterate_boxes,
    read_decode_time,
)
from videoloader.indexing.mp4.samples import Samples
from videoloader.indexing.sources.base import ByteSource

# Flags of tfhd, then of trun; then sample flags.
_BASE_DATA_OFFSET, _DEFAULT_BASE_IS_MOOF = 0x1, 0x20000
_DEFAULTS = (0x2, 0x8, 0x10, 0x20)  # flags for the fields of ``Defaults``
_DATA_OFFSET, _FIRST_FLAGS, _DURATION, _SIZE, _FLAGS, _COMPOSITION = 0x1, 0x4, 0x100, 0x200, 0x400, 0x800
_NOT_SYNC, _DEPENDS_ON_OTHERS = 0x10000, 0x1000000
_NEVER = -(1 << 62)


class Defaults(NamedTuple):
    """The defaults of a track's samples (trex), unless their fragment (tfhd) or run says otherwise."""

    description: int = 1
    duration: int = 0
    size: int = 0
    flags: int = 0


def read_defaults(data: bytes, mvex: Box, track_id: int) -> Defaults:
    """Return the defaults in the track's ``trex`` box."""
    for box in iterate_boxes(data, mvex.start, mvex.stop, b"mvex"):
        if box.type == b"trex" and box.stop - box.start >= 24:
            track, *values = (int.from_bytes(data[i : i + 4], "big") for i in range(box.start + 4, box.start + 24, 4))
            if track == track_id:
                return Defaults(*values)
    return Defaults()


def reaches_the_end(source: ByteSource, sidx: FileBox) -> bool:
    """Whether what a ``sidx`` box covers ends at the end of the file, or before its last box, an ``mfra``."""
    data = source.read(sidx.start, sidx.stop - sidx.start)
    width = 8 if data[:1] == b"\1" else 4
    rows = 12 + 2 * width + 4
    # References to media, and to other indexes, have their size in 31 bits.
    sizes = np.frombuffer(data[rows : rows + (len(data) - rows) // 12 * 12], ">u4")[::3] & 0x7FFFFFFF
    stop = sidx.stop + int.from_bytes(data[12 + width : rows - 4], "big") + int(sizes.sum(dtype=np.int64))
    return stop in (source.size, source.size - int.from_bytes(source.read(source.size - 4, 4), "big"))


class _Run(NamedTuple):
    """A trun as it is in the file: the bytes of its table, and what its samples have that is not in the table.

    Attributes:
        of_track: True if it belongs to the wanted track; for other tracks only the size matters, for what follows them.
        moof: number of its fragment.
        fields: flags that say which columns the table has.
        samples: number of samples.
        table: the rows.
        defaults: defaults of the samples; ``first_flags`` are those of the first.
        base: origin of the offsets of its traf, in a traf's first run; None for where the last traf's data ends.
        data_offset: start of its data, from base; None for right after the run before it, or at base.
        is_first: whether it is its traf's first run.
        decode_time: decode time of its first sample by ``tfdt``.
    """

    of_track: bool
    moof: int
    fields: int
    samples: int
    table: bytes
    defaults: Defaults
    first_flags: int
    base: int | None
    data_offset: int | None
    is_first: bool
    decode_time: int | None


# Whether all fragments of a track say when they begin. "anew" means that libavformat goes back to where a fragment has
# begun: for another traf of the track in it, or for a trun that does not say where its data is.
Begins: TypeAlias = Literal["told", "untold", "anew"]


class _Fragments:
    """State of the walk over the fragments. ``bytes_left`` limits the samples of runs without a table."""

    def __init__(self, source: ByteSource, track_id: int, defaults: Defaults) -> None:
        self.source, self.track_id, self.defaults = source, track_id, defaults
        self.bytes_left = source.size


def read_fragments(
    source: ByteSource,
    moofs: list[FileBox],
    track_id: int,
    defaults: Defaults,
    head: Samples,
    time_offset: int,
    opened: int,
    lowest: int,
) -> tuple[Samples, Begins]:
    """Return the samples of a track from the tables in moov and from all movie fragments, and where fragments begin.

    Args:
        source: the file.
        moofs: the file's moof boxes, in order.
        track_id: number of the track.
        defaults: defaults of the track, from ``trex``.
        head: samples in moov itself; often none.
        time_offset: time that the edit list subtracts from all decode times.
        opened: number of fragments that libavformat has read before the first packet.
        lowest: negative composition offset of the head, or 0 (``lowest_offset``).

    Raises:
        IndexingError: a run has more samples than bytes for them, or empty ones.
    """
    walk = _Fragments(source, track_id, defaults)
    runs = [run for number, moof in enumerate(moofs) for run in _read_fragment(walk, number, moof)]
    if not any(run.samples for run in runs):
        return head, "told"
    begins = [run for run in runs if run.of_track and run.is_first]
    told: Begins = "told" if all(run.decode_time is not None for run in begins) else "untold"
    several = len(begins) > len({run.moof for run in begins})
    if several or any(run.data_offset is None for run in runs if not run.is_first):
        told = "anew"
    parts = [*_parts_of(runs, head, time_offset, opened, lowest, source)]
    return Samples(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), told


def check_runs(source: ByteSource, boxes: Iterable[FileBox]) -> None:
    """Check what libavformat does not, if it is to read the fragments: it allocates memory for all that they list.

    Args:
        source: the file.
        boxes: its boxes that may have runs in them, wherever they lie there.

    Raises:
        IndexingError: a run lists more samples than there are bytes for them.
    """
    walk = _Fragments(source, 0, Defaults())
    for box in boxes:
        data = source.read(box.start, box.stop - box.start)
        for found in re.finditer(b"trun", data):
            # libavformat reads on where the box ends.
            stop = len(data) + source.size - box.stop
            _read_run(walk, data, Box(b"trun", found.end(), stop), 0, False, Defaults())


def _read_fragment(walk: _Fragments, number: int, moof: FileBox) -> Iterator[_Run]:
    data = walk.source.read(moof.header, moof.stop - moof.header)
    base: int | None = moof.header  # the first traf's data counts from here, unless stated otherwise
    for traf in iterate_boxes(data, moof.start - moof.header, len(data), b"moof", is_cut=moof.is_cut):
        if traf.type == b"traf":
            yield from _read_track_fragment(walk, data, traf, number, moof.header, base)
            base = None


def _read_track_fragment(
    walk: _Fragments, data: bytes, traf: Box, number: int, moof_offset: int, implicit: int | None
) -> Iterator[_Run]:
    boxes = list(iterate_boxes(data, traf.start, traf.stop, b"traf"))
    tfhd = next((box for box in boxes if box.type == b"tfhd"), None)
    if tfhd is None:
        raise IndexingError(f"the fragment at byte {moof_offset} has a traf without tfhd", walk.source.name)
    in_order = [box.type for box in boxes if box.type in OF_TRACK_FRAGMENT]
    if in_order[0] != b"tfhd" or b"tfhd" in in_order[1:] or b"tfdt" in in_order[2:]:
        raise NotPlainError
    flags, track = (int.from_bytes(data[at : at + 4], "big") for at in (tfhd.start, tfhd.start + 4))
    of_track = track == walk.track_id
    told, _ = _read_fields(data, tfhd.start + 8, flags, {_BASE_DATA_OFFSET: 8, **dict.fromkeys(_DEFAULTS, 4)})
    base = told.get(_BASE_DATA_OFFSET, moof_offset if flags & _DEFAULT_BASE_IS_MOOF else implicit)
    defaults = Defaults(*(told.get(flag, usual) for flag, usual in zip(_DEFAULTS, walk.defaults, strict=True)))
    tfdt = next((box for box in boxes if box.type == b"tfdt"), None)
    decode_time = None if tfdt is None else read_decode_time(data, tfdt)
    # An empty run says where and when the traf is, whether it has runs of its own or not.
    yield _Run(of_track, number, 0, 0, b"", defaults, 0, base, None, True, decode_time)
    for box in boxes:
        if box.type == b"trun":
            yield _read_run(walk, data, box, number, of_track, defaults)


def _read_fields(data: bytes, at: int, flags: int, sizes: dict[int, int]) -> tuple[dict[int, int], int]:
    """Return the numbers in a box by the flags that say which it has, and the position after them."""
    fields: dict[int, int] = {}
    for flag, size in sizes.items():
        if flags & flag:
            fields[flag] = int.from_bytes(data[at : at + size], "big")
            at += size
    return fields, at


def _read_run(walk: _Fragments, data: bytes, trun: Box, number: int, of_track: bool, defaults: Defaults) -> _Run:
    flags = int.from_bytes(data[trun.start + 1 : trun.start + 4], "big")
    count = int.from_bytes(data[trun.start + 4 : trun.start + 8], "big")
    told, cursor = _read_fields(data, trun.start + 8, flags, {_DATA_OFFSET: 4, _FIRST_FLAGS: 4})
    first_flags, data_offset = told.get(_FIRST_FLAGS, defaults.flags), told.get(_DATA_OFFSET)
    if data_offset is not None:
        data_offset -= data_offset >> 31 << 32  # it is signed
    fields = flags & (_DURATION | _SIZE | _FLAGS | _COMPOSITION)
    width = 4 * fields.bit_count()
    # Rows without fields have no bytes, but the file's size still limits how many there can be.
    fits = (trun.stop - cursor) // width if width else walk.bytes_left // max(defaults.size, 1)
    if count > fits:
        raise IndexingError(
            f"the run at byte {trun.start} of a fragment lists {count} samples but has room for {max(fits, 0)}",
            walk.source.name,
        )
    if not width:
        walk.bytes_left -= count * max(defaults.size, 1)
    table = data[cursor : cursor + count * width]
    return _Run(of_track, number, fields, count, table, defaults, first_flags, None, data_offset, False, None)


def _parts_of(
    runs: list[_Run], head: Samples, time_offset: int, opened: int, lowest: int, source: ByteSource
) -> tuple[Samples, Samples]:
    """Return the head and the samples of the runs, with times on one timeline."""
    counts = np.array([run.samples for run in runs], np.int64)
    stops = np.cumsum(counts)
    firsts = stops - counts
    columns = _read_columns(runs, counts)
    size, duration, sample_flags, composition = (columns[bit] for bit in (_SIZE, _DURATION, _FLAGS, _COMPOSITION))
    for_first = [run.samples > 0 and not run.fields & _FLAGS for run in runs]
    sample_flags[firsts[for_first]] = [run.first_flags for run, chosen in zip(runs, for_first, strict=True) if chosen]
    before, time_before = (np.concatenate([[0], np.cumsum(column)]) for column in (size, duration))
    run_sizes, run_durations = (sums[stops] - sums[firsts] for sums in (before, time_before))
    position, time, last_time = _place_runs(runs, run_sizes, run_durations, duration[stops - 1], head, time_offset)
    run_of = np.repeat(np.arange(len(runs)), counts)
    of_track = np.array([run.of_track for run in runs])[run_of]
    wrong = of_track & ((size <= 0) | (size > source.size))
    if wrong.any():
        raise IndexingError(f"a fragment's sample has {int(size[wrong.argmax()])} bytes", source.name)
    dts = time[run_of] + time_before[:-1] - time_before[firsts][run_of]
    moof_of = np.array([run.moof for run in runs])[run_of]
    shifts = _shifts(moof_of, np.where(of_track, composition, 0), opened, lowest)
    if opened:
        head = head._replace(composition=head.composition + (shifts[0] + lowest))
    if any(run.of_track and run.samples and not run.defaults.description for run in runs):
        raise NotPlainError  # libavformat passes over runs of a description that cannot be
    description = np.array([min(max(run.defaults.description - 1, 0), 255) for run in runs], np.uint8)
    samples = Samples(
        position[run_of] + before[:-1] - before[firsts][run_of],
        size.astype(np.int32),
        dts,
        composition + shifts[moof_of],
        (sample_flags & (_NOT_SYNC | _DEPENDS_ON_OTHERS)) == 0,
        description[run_of],
        # A fragment that goes back in time repeats what was already shown.
        dts <= last_time[run_of],
    )
    return head, Samples(*(column[of_track] for column in samples))


def _read_columns(runs: list[_Run], counts: npt.NDArray[np.int64]) -> dict[int, npt.NDArray[np.int64]]:
    """Return each column for the samples of all runs; tables with the same layout are read together."""
    columns = {
        bit: np.repeat(np.array([default(run.defaults) for run in runs], np.int64), counts)
        for bit, default in _COLUMN_DEFAULTS.items()
    }
    layouts = np.array([run.fields for run in runs])
    for layout in np.unique(layouts[layouts > 0]).tolist():
        bits = [bit for bit in _COLUMN_DEFAULTS if layout & bit]
        table = np.frombuffer(b"".join(run.table for run in runs if run.fields == layout), ">u4").reshape(-1, len(bits))
        rows = np.repeat(layouts == layout, counts)
        for place, bit in enumerate(bits):
            column = table[:, place]
            columns[bit][rows] = column.view(">i4") if bit == _COMPOSITION else column
    return columns


# Columns of a trun's table in order, with their values if they are missing.
_COLUMN_DEFAULTS: dict[int, Callable[[Defaults], int]] = {
    _DURATION: lambda defaults: defaults.duration,
    _SIZE: lambda defaults: defaults.size,
    _FLAGS: lambda defaults: defaults.flags,
    _COMPOSITION: lambda defaults: 0,
}


def _place_runs(
    runs: list[_Run],
    sizes: npt.NDArray[np.int64],
    durations: npt.NDArray[np.int64],
    last_durations: npt.NDArray[np.int64],
    head: Samples,
    time_offset: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (byte offset, decode time, decode time of the last sample before it) of each run."""
    last = int(head.dts[-1]) if len(head.dts) else _NEVER
    step = int(head.dts[-1] - head.dts[-2]) if len(head.dts) > 1 else 0
    following = last + step if len(head.dts) else -time_offset
    base = position = 0
    placed = []
    columns = (sizes.tolist(), durations.tolist(), last_durations.tolist())
    for run, size, duration, last_duration in zip(runs, *columns, strict=True):
        if run.is_first:
            base = position if run.base is None else run.base
            position = base
            if run.of_track and run.decode_time is not None:
                following = run.decode_time - time_offset
        elif run.data_offset is not None:
            position = base + run.data_offset
        placed.append((position, following, last))
        position += size
        if run.of_track and run.samples:
            last = following + duration - last_duration
            following += duration
    offsets, times, last_times = np.array(placed, np.int64).T
    return offsets, times, last_times


def _shifts(
    moof_of: npt.NDArray[np.int64], composition: npt.NDArray[np.int64], opened: int, lowest: int
) -> npt.NDArray[np.int64]:
    """Return how far the composition offsets of each fragment's samples are moved up.

    Decode times of fragments are absolute. So, unlike in moov, the shift that keeps pts >= dts moves the pts. That is
    libavformat's timeline, on which its users' annotations are made. The shift is the lowest offset that libavformat
    has met so far: that of all fragments if no index lists them, since it then searches for them when it opens the
    file.
    """
    lows = np.zeros(moof_of[-1] + 1, np.int64)
    np.minimum.at(lows, moof_of, composition)
    lows[0] = min(lowest, lows[: max(opened, 1)].min())
    shifts: npt.NDArray[np.int64] = np.maximum.accumulate(-lows)
    return shifts
