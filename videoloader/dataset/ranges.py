"""Which frames of its video an entry means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from videoloader.dataset.entry import ENDS, FROM_END, VideoEntry
from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import FrameRangeError, VideoLoaderError, warn_user
from videoloader.indexing import VideoIndex
from videoloader.indexing.store.cache import IndexCache
from videoloader.sampling import AllFrames
from videoloader.sampling.exact_time import first_at_or_after
from videoloader.sampling.screen_time import screen_time, told_span

Integers = npt.NDArray[np.int64]
_ROUNDING = Fraction(1, 2000)
# Annotations may end after their video by a second, or by this share of it.
_LATE_SECONDS, _LATE_SHARE = 1.0, 0.1


def entry_range(entry: VideoEntry, index: VideoIndex) -> tuple[int, int]:
    """The frames ``[first, stop)`` of a video that an entry means.

    Seconds choose the frames whose times lie in ``[start_seconds, stop_seconds)``, to half a millisecond or half a unit
    of the video's time base, whichever is less: parts that touch share no frame and lose none. They count as the entry
    says (``times``). Seconds may reach beyond the video; frame numbers may not.

    Raises:
        FrameRangeError: there is no such frame, or a frame number lies outside the video.

    Example:
        At 25 frames a second, ``start_seconds=1, stop_seconds=2`` are the frames ``(25, 50)``.
    """
    index = index.with_times(entry.times)
    first, stop = entry.start or 0, len(index) if entry.stop is None else entry.stop
    if entry.start_seconds is not None:
        first = _first_frame_from(entry.start_seconds, index)
    if entry.stop_seconds is not None:
        stop = _first_frame_from(entry.stop_seconds, index)
    if not first < stop <= len(index):
        asked = ", ".join(f"{name}={value}" for name in ENDS if (value := getattr(entry, name)) is not None)
        lasts = f"the video lasts {told_span(AllFrames(index))}, {len(index)} frames"
        beyond = ": stop is beyond them" if entry.stop is not None and entry.stop > len(index) else ""
        beyond += FROM_END if entry.stop_seconds is not None and entry.stop_seconds < 0 else ""
        raise FrameRangeError(f"no frames for {asked}; {lasts}{beyond}", index.source)
    return int(first), int(stop)


def entry_ranges(
    table: EntryTable, frames: Integers, indexes: IndexCache, errors: Mapping[int, VideoLoaderError]
) -> tuple[Integers, Integers, dict[int, VideoLoaderError]]:
    """As ``entry_range``, for all rows of a table. Indexes are asked for only where rows give seconds.

    A warning tells of rows that end long after their videos.

    Args:
        table: the rows.
        frames: int64[N], number of frames of each row's video.
        indexes: those of the videos.
        errors: number of a row -> why its video cannot be used.

    Returns:
        first and stop, int64[N], and the errors of rows, with those of rows that mean no frames; 0 and 0 there.
    """
    first, stop = np.where(table.start == NONE, 0, table.start), np.where(table.stop == NONE, frames, table.stop)
    in_seconds = ~(np.isnan(table.start_seconds) & np.isnan(table.stop_seconds))
    found, late = dict(errors), list[str]()
    for row in np.flatnonzero(in_seconds | (first >= stop) | (stop > frames)).tolist():
        if row not in errors:
            entry = table[row]
            try:
                index = indexes[entry.path]
                first[row], stop[row] = entry_range(entry, index)
                late += late_end(entry, index, stop[row])
            except VideoLoaderError as error:
                first[row] = stop[row] = 0
                found[row] = error
    tell_of_late_ends(late, len(table))
    return first, stop, found


def late_end(entry: VideoEntry, index: VideoIndex, stop: int) -> list[str]:
    """What to tell of an entry whose seconds end long after its video, as frame numbers do; ``stop`` is its range's."""
    if entry.stop_seconds is None or stop < len(index):
        return []
    video = AllFrames(index.with_times(entry.times))
    begin, end = (float((units - video.index.zero) * index.stream.time_base) for units in screen_time(video))
    if entry.stop_seconds <= end + max(_LATE_SECONDS, _LATE_SHARE * (end - begin)):
        return []
    return [f"{entry.path} to {entry.stop_seconds:g} s of {told_span(video)}"]


def tell_of_late_ends(late: Sequence[str], total: int) -> None:
    """Warn, if there are any, of the rows that ``late_end`` tells of among ``total`` ones."""
    if late:
        units = "start, end and stop of a table are seconds, start_frame and end_frame are frames"
        many = f"{len(late)} of {total} rows {'end' if len(late) > 1 else 'ends'} after the video"
        warn_user(f"{many} and will be cut there (the first: {late[0]}): {units}")


def _first_frame_from(seconds: float, index: VideoIndex) -> int:
    # Slack, so that a time which was rounded (to a float, to the container's milliseconds) finds its frame.
    base = index.stream.time_base
    units = ceil((Fraction(float(seconds)) - min(base / 2, _ROUNDING)) / base)
    return int(first_at_or_after(index, [units + index.zero])[0])
