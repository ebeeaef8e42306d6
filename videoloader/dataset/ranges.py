"""Computes the range of frames that each row means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from videoloader.dataset.entry import FROM_END, VideoEntry, told_ends
from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import FrameRangeError, VideoLoaderError, warn_user
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import VideoIndex
from videoloader.indexing.store.cache import IndexCache
from videoloader.indexing.store.frame_facts import TimeRules
from videoloader.sampling.exact_time import ROUNDING, first_at_or_after, screen_time, told_span
from videoloader.sampling.sampled_video import AllFrames

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# An upper bound for the relative error of a few float64 operations, and a time in units beyond any video.
_NEAR, _FARTHEST = 1e-12, 2.0**60
# Annotations may end after their video by this many seconds, or by this share of it, without a warning.
_LATE_SECONDS, _LATE_SHARE = 1.0, 0.1
_UNITS = "start, end and stop of a table are seconds, start_frame and end_frame are frames"


def entry_range(entry: VideoEntry, index: VideoIndex) -> tuple[int, int]:
    """The frames ``[first, stop)`` of its video that an entry means.

    Seconds choose the frames whose times lie in ``[start_seconds, stop_seconds)``, to within half a millisecond or half
    a unit of the video's time base, whichever is less: adjacent parts share no frame and lose none. The entry's
    ``times`` sets their zero point. Seconds may reach beyond the video; frame numbers may not.

    Raises:
        FrameRangeError: there is no such frame, or a frame number lies outside the video.

    Examples:
        At 25 frames a second, ``start_seconds=1, stop_seconds=2`` are the frames ``(25, 50)``.
    """
    index = index.with_times(entry.times)
    first, stop = entry.start or 0, len(index) if entry.stop is None else entry.stop
    if entry.start_seconds is not None:
        first = _first_frame_from(entry.start_seconds, index)
    if entry.stop_seconds is not None:
        stop = _first_frame_from(entry.stop_seconds, index)
    if not first < stop <= len(index):
        lasts = f"the video lasts {told_span(AllFrames(index))}, {len(index)} frames"
        beyond = ": stop is beyond them" if entry.stop is not None and entry.stop > len(index) else ""
        beyond += f": {_UNITS}" if entry.start_seconds is not None and first >= len(index) else ""
        beyond += FROM_END if entry.stop_seconds is not None and entry.stop_seconds < 0 else ""
        raise FrameRangeError(f"no frames for {told_ends(entry)}; {lasts}{beyond}", index.source)
    return int(first), int(stop)


def entry_ranges(
    table: EntryTable,
    frames: Integers,
    indexes: IndexCache,
    errors: Mapping[int, VideoLoaderError],
    rules: TimeRules | None = None,
) -> tuple[Integers, Integers, dict[int, VideoLoaderError]]:
    """Do the same as ``entry_range`` for all rows of a table.

    Indexes are needed only for rows with seconds whose video's times follow no rule, and for rows that mean no frames.
    A warning counts rows that end long after their videos.

    Args:
        table: the rows.
        frames: int64[N], number of frames of each row's video.
        indexes: indexes of the videos.
        errors: row number -> the reason why its video cannot be used.
        rules: rules for the times of each row's video; None where they are not known.

    Returns:
        first and stop, int64[N], 0 in rows with an error; and the errors, including those of rows that mean no frames.
    """
    first, stop = np.where(table.start == NONE, 0, table.start), np.where(table.stop == NONE, frames, table.stop)
    in_seconds = rows_in_seconds(table)
    late = np.zeros(len(table), np.bool_)
    if rules is not None:
        known = np.flatnonzero(in_seconds & rules.known())
        in_seconds[known] = False
        for frame, seconds in ((first, table.start_seconds), (stop, table.stop_seconds)):
            rows = known[~np.isnan(seconds[known])]
            frame[rows] = _first_frames_from(seconds[rows], rules.take(rows), table.in_pts[rows])
        rows = known[~np.isnan(table.stop_seconds[known]) & (stop[known] == frames[known]) & (first < stop)[known]]
        late[rows] = _end_late(table.stop_seconds[rows], rules.take(rows), table.in_pts[rows])
    found = dict(errors)
    for row in np.flatnonzero(in_seconds | (first >= stop) | (stop > frames)).tolist():
        if row not in errors:
            entry = table[row]
            try:
                index = indexes[entry.path]
                first[row], stop[row] = entry_range(entry, index)
                late[row] = ends_late(entry, index, stop[row])
            except VideoLoaderError as error:
                raise_of_handler(error)
                first[row] = stop[row] = 0
                found[row] = error
    tell_of_late_ends(table, np.flatnonzero(late).tolist(), indexes)
    return first, stop, found


def rows_in_seconds(table: EntryTable) -> npt.NDArray[np.bool_]:
    """bool[N]: the rows that give an end in seconds."""
    return ~(np.isnan(table.start_seconds) & np.isnan(table.stop_seconds))


def ends_late(entry: VideoEntry, index: VideoIndex, stop: int) -> bool:
    """Whether an entry's seconds end long after its video, as if they were frame numbers; ``stop`` ends its range."""
    if entry.stop_seconds is None or stop < len(index):
        return False
    video = AllFrames(index.with_times(entry.times))
    begin, end = (float((units - video.index.zero) * index.stream.time_base) for units in screen_time(video))
    return entry.stop_seconds > end + max(_LATE_SECONDS, _LATE_SHARE * (end - begin))


def _end_late(seconds: Floats, rules: TimeRules, in_pts: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """bool[R]: ``ends_late`` for rows that include the last frame of their video, with times that are not rounded."""
    shown = np.maximum((rules.last - rules.first) / np.maximum(rules.frames - 1, 1), 1)
    zero, base = np.where(in_pts, 0, rules.zero), rules.time_base
    begin, end = ((units - zero) * base[0] / base[1] for units in (rules.first, rules.last + shown))
    late: npt.NDArray[np.bool_] = seconds > end + np.maximum(_LATE_SECONDS, _LATE_SHARE * (end - begin))
    return late


def tell_of_late_ends(table: EntryTable, late: Sequence[int], indexes: IndexCache | Mapping[str, VideoIndex]) -> None:
    """Warn about the rows of a table that end late, if there are any."""
    if late:
        entry = table[late[0]]
        span = told_span(AllFrames(indexes[entry.path].with_times(entry.times)))
        many = f"{len(late)} of {len(table)} rows {'end' if len(late) > 1 else 'ends'} after the video"
        told = f"{entry.path} to {entry.stop_seconds:g} s of {span}"
        warn_user(f"{many} and will be cut there (the first: {told}): {_UNITS}")


def _first_frame_from(seconds: float, index: VideoIndex) -> int:
    return int(first_at_or_after(index, [_units(seconds, index.stream.time_base) + index.zero])[0])


def _first_frames_from(seconds: Floats, rules: TimeRules, in_pts: npt.NDArray[np.bool_]) -> Integers:
    """int64[R]: ``_first_frame_from`` for many videos."""
    base, seconds = rules.time_base, np.clip(seconds, -_FARTHEST, _FARTHEST)
    exact = (seconds - np.minimum(base[0] / base[1] / 2, float(ROUNDING))) * base[1] / base[0]
    # Floats decide on which side of a whole number a time lies, unless it is very close to one.
    near = np.abs(exact - np.round(exact)) <= _NEAR * np.maximum(np.abs(exact), 1)
    units = np.ceil(np.clip(exact, -_FARTHEST, _FARTHEST)).astype(np.int64)
    for row in np.flatnonzero(near & (np.abs(exact) < _FARTHEST)).tolist():
        units[row] = _units(float(seconds[row]), Fraction(int(base[0, row]), int(base[1, row])))
    return rules.first_at_or_after(units + np.where(in_pts, 0, rules.zero))


def _units(seconds: float, base: Fraction) -> int:
    # The slack lets times that were rounded (to a float, or to the container's milliseconds) find their frame.
    return ceil((Fraction(float(seconds)) - min(base / 2, ROUNDING)) / base)
