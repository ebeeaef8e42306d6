"""Read the sample tables of a track (ISO/IEC 14496-12, 8.6 and 8.7) as arrays, with one element per sample."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.mp4.boxes import Box, NotPlainError


class Samples(NamedTuple):
    """All samples of a track in decode order, as columns of equal length.

    ``dts`` counts from zero in media time units, ``composition`` is pts - dts, ``config`` is the number of the sample
    description (from zero), and ``discarded`` marks samples that a player decodes but never shows.
    """

    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int32]
    dts: npt.NDArray[np.int64]
    composition: npt.NDArray[np.int64]
    key: npt.NDArray[np.bool_]
    config: npt.NDArray[np.uint8]
    discarded: npt.NDArray[np.bool_]


_UINT32, _INT64 = np.dtype(">u4"), np.dtype(">i8")
_TIME_TO_SAMPLE = np.dtype([("count", ">u4"), ("value", ">i4")])
_SAMPLE_TO_CHUNK = np.dtype((">i4", 3))  # first chunk, samples per chunk, description
_COMPOSITION_OFFSET = np.dtype([("count", ">i4"), ("value", ">i4")])
# For libavformat, lower deltas are not negative but long ones, as in the standard.
_MOST_NEGATIVE, _UNSIGNED = -480_000, 1 << 32


def _entries(data: bytes, box: Box, kind: np.dtype[Any], header: int = 4) -> npt.NDArray[Any]:
    """Return the rows after a table's version, flags and row count.

    Raises:
        NotPlainError: there are fewer. libavformat takes the bytes behind the table for rows.
    """
    start = box.start + header + 4
    count = int.from_bytes(data[start - 4 : start], "big")
    if start + count * kind.itemsize > box.stop:
        raise NotPlainError
    return np.frombuffer(data, kind, count, start)


def _samples_of_one_size(data: bytes, stsz: int, file_size: int, name: str) -> tuple[int, int]:
    """Return the size of all samples, which is 0 if they differ, and their number, from the payload at ``stsz``."""
    size, count = (int.from_bytes(data[at : at + 4], "big") for at in (stsz + 4, stsz + 8))
    if size and (count * size > file_size or size >= 2**31):
        raise IndexingError(f"stsz lists {count} samples of {size} bytes, more than the file has", name)
    return size, count


def _sample_sizes(data: bytes, stbl: dict[bytes, Box], file_size: int, name: str) -> npt.NDArray[np.int32]:
    if b"stsz" not in stbl:
        return np.empty(0, np.int32)
    box = stbl[b"stsz"]
    uniform, count = _samples_of_one_size(data, box.start, file_size, name)
    if uniform:
        return np.full(count, uniform, np.int32)
    sizes = _entries(data, box, _UINT32, header=8).astype(np.uint32)
    if sizes.size and sizes[sizes.argmax()] > min(file_size, 2**31 - 1):
        raise IndexingError(f"sample {int(sizes.argmax())} has {int(sizes.max())} bytes, more than the file", name)
    return sizes.view(np.int32)


def check_sizes(data: bytes, file_size: int, name: str) -> None:
    """Check samples of one size in all tracks, wherever they are listed: libavformat allocates memory for all of them.

    Args:
        data: buffer with the boxes.
        file_size: size of the file in bytes.
        name: name of the source, for messages.

    Raises:
        IndexingError: the file has fewer bytes.
    """
    total = 0
    for found in re.finditer(b"stsz", data):
        size, count = _samples_of_one_size(data, found.end(), file_size, name)
        total += size * count
    if total > file_size:
        raise IndexingError("is damaged: its tracks together list more samples than it has bytes", name)


def _expand(
    runs: npt.NDArray[np.int64], value: npt.NDArray[np.int64], total: int, count: int, rest: int
) -> npt.NDArray[np.int64]:
    """Expand a run-length table to one value per sample; ``rest`` is the value of samples after the last run."""
    if total != count:
        # Runs are limited to the samples left, so that a wild count cannot ask for more than there are.
        ends = np.minimum(np.cumsum(np.minimum(runs, count)), count)
        runs, value = np.diff(ends, prepend=0, append=count), np.append(value, rest)
    return value.repeat(runs)


def _decode_times(data: bytes, box: Box | None, count: int, composed: int) -> npt.NDArray[np.int64]:
    """Return decode times; ``composed`` is the number of samples in the table of composition offsets."""
    if box is None:
        return np.zeros(count, np.int64)
    if not len(table := _entries(data, box, _TIME_TO_SAMPLE)):
        raise NotPlainError  # libavformat passes over the track
    # libavformat joins both tables: if only the other one has rows left, time stands still from there on.
    if len(table) == 1:
        total, step = table.item(0)
        if step >= 0 and total >= min(composed, count):
            regular: npt.NDArray[np.int64] = np.arange(count) * step
            return regular
    delta: npt.NDArray[np.int64] = table["value"].astype(np.int64)
    runs = table["count"].astype(np.int64)
    total = int(np.add.reduce(runs))
    goes_on = total >= min(composed, count)
    if delta[delta.argmin()] < 0:
        delta = _correct_negative_deltas(runs, delta)
    dts = np.zeros(count, np.int64)
    np.cumsum(_expand(runs, delta, total, count, int(delta[-1]) if goes_on else 0)[:-1], out=dts[1:])
    return dts


def _correct_negative_deltas(counts: npt.NDArray[np.int64], deltas: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Turn deltas into ones of at least one unit that return to the true time as soon as they can.

    Some writers store a negative delta to correct earlier ones, which the standard does not allow. Decode times must
    grow, so libavformat plays such a sample for one unit and takes the rest from the samples after it. Frames must get
    the same timestamps here.
    """
    corrected = deltas.copy()
    clock = true_clock = 0
    for row, (count, delta) in enumerate(zip(counts.tolist(), deltas.tolist(), strict=True)):
        if delta < _MOST_NEGATIVE:
            delta += _UNSIGNED
        step = delta if delta >= 0 else 1
        true_clock += delta * count
        clock += step * count
        if clock > true_clock:
            drift = (clock - true_clock) // max(count, 1)
            # Counted without a sign, as there: taking one unit from a sample of zero units gives it one unit, and sets
            # the clock back so far that nothing is missing from then on.
            correction = (drift if step > drift else step - 1) % _UNSIGNED
            clock -= correction * count
            step = (step - correction) % _UNSIGNED
        corrected[row] = step
    return corrected


def _composition_offsets(data: bytes, box: Box | None, count: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the offset of each sample, and how many samples the table has."""
    if box is None:
        return np.zeros(count, np.int64), 0
    # Version 0 is unsigned by the standard, but writers also store negative offsets there. No real offset, and no real
    # count, needs the top bit.
    table = _entries(data, box, _COMPOSITION_OFFSET)
    runs, value = table["count"].astype(np.int64), table["value"].astype(np.int64)
    if len(runs) and runs[runs.argmin()] <= 0:
        runs, value = runs[runs > 0], value[runs > 0]
    total = int(np.add.reduce(runs))
    return _expand(runs, value, total, count, 0), total


def lowest_offset(data: bytes, ctts: Box | None) -> int:
    """Return the lowest composition offset, at most 0, among those libavformat considers: all rows but the last two."""
    return 0 if ctts is None else int(_entries(data, ctts, _COMPOSITION_OFFSET)["value"][:-2].min(initial=0))


def _chunk_layout(
    data: bytes, stbl: dict[bytes, Box], sizes: npt.NDArray[np.int32], name: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the offset and sample description of each sample, from stco/co64 and stsc."""
    count = len(sizes)
    large = b"co64" in stbl
    box = stbl.get(b"co64" if large else b"stco")
    if box is None or b"stsc" not in stbl:
        raise IndexingError("samples without chunk tables (stco/co64, stsc)", name)
    chunks = _entries(data, box, _INT64 if large else _UINT32).astype(np.int64)
    to_chunk = _entries(data, stbl[b"stsc"], _SAMPLE_TO_CHUNK).astype(np.int64)
    if not len(chunks) or not len(to_chunk):
        raise IndexingError("samples with empty chunk tables (stco/co64, stsc)", name)
    if to_chunk.min() < 1:
        raise NotPlainError  # libavformat corrects such rows as far as it can
    first, in_chunk, description = to_chunk.T
    before = np.empty(count + 1, np.int64)
    before[0], before[1:] = 0, sizes
    np.add.accumulate(before, out=before)
    if len(to_chunk) == 1 and first[0] == 1 and in_chunk[0] * len(chunks) == count:
        # Chunks of the same number of samples, as in most files without sound.
        offsets = (chunks - before[: -1 : int(in_chunk[0])]).repeat(int(in_chunk[0])) + before[:-1]
        return offsets, _all_alike(count, description)
    run_chunks = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=run_chunks[:-1])
    run_chunks[-1] = len(chunks) + 1 - first[-1]
    if first[0] != 1 or run_chunks[run_chunks.argmin()] <= 0:
        raise IndexingError("the sample-to-chunk table (stsc) contradicts the chunk offsets", name)
    in_chunk = in_chunk.repeat(run_chunks)
    stop = in_chunk.cumsum()
    if stop[-1] < count:
        raise IndexingError(f"the chunks contain only {int(stop[-1])} of {count} samples", name)
    if stop[-1] > count:
        raise NotPlainError  # libavformat gives all samples, but without an edit list
    offsets = (chunks - before[stop - in_chunk]).repeat(in_chunk)
    offsets += before[:-1]
    if len(description) == 1 or (description == description[0]).all():
        return offsets, _all_alike(count, description)
    numbers = np.minimum(description - 1, 255).astype(np.uint8)
    return offsets, numbers.repeat(run_chunks).repeat(in_chunk)


def _all_alike(count: int, description: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the column of samples that all have the first of these descriptions, which count from one."""
    column = np.empty(count, np.uint8)
    column.fill(min(int(description[0]) - 1, 255))
    return column


def _key_mask(data: bytes, stbl: dict[bytes, Box], count: int) -> npt.NDArray[np.bool_]:
    if b"stss" not in stbl:
        return np.ones(count, np.bool_)
    # Samples count from one; numbers out of range fall on the border.
    key = np.zeros(count + 2, np.bool_)
    for kind in (b"stss", b"stps"):  # stps: QuickTime's partial sync samples, which are open-GOP keyframes
        if kind in stbl:
            key.put(_entries(data, stbl[kind], _UINT32).astype(np.int64), True, mode="clip")
    key = key[1:-1]
    if not key[key.argmax()]:
        key[0] = True
    return key


def read_samples(data: bytes, stbl: dict[bytes, Box], file_size: int, name: str) -> Samples:
    """Return all samples in the tables of moov; none for a purely fragmented track.

    Args:
        data: buffer with the boxes.
        stbl: children of the track's sample table box.
        file_size: size of the file in bytes; every number is checked against it.
        name: name of the source, for messages.

    Raises:
        IndexingError: the tables contradict each other or the file.
        NotPlainError: only libavformat knows what it makes of them.
    """
    sizes = _sample_sizes(data, stbl, file_size, name)
    count = len(sizes)
    if not count:
        if any(kind in stbl and len(_entries(data, stbl[kind], _UINT32)) for kind in (b"stco", b"co64")):
            raise NotPlainError  # libavformat passes over the track, even if fragments have samples of it
        none, unmarked = np.empty(0, np.int64), np.empty(0, np.bool_)
        return Samples(none, sizes, none, none, unmarked, none.astype(np.uint8), unmarked)
    offset, config = _chunk_layout(data, stbl, sizes, name)
    composition, composed = _composition_offsets(data, stbl.get(b"ctts"), count)
    return Samples(
        offset,
        sizes,
        _decode_times(data, stbl.get(b"stts"), count, composed),
        composition,
        _key_mask(data, stbl, count),
        config,
        np.zeros(count, np.bool_),
    )
