"""Give times to the frames of a folder of image files, by the numbers in their names or a list of times."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, SourceError, warn_user
from videoloader.indexing.exact_numbers import exact, number_of_text
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.folder import FolderSource, split_times
from videoloader.indexing.sources.natural_order import number_parts
from videoloader.indexing.sources.text_lines import csv_within_limits, lines

# Unit of listed times, in which seconds since 1970 fit 64 bits.
_LISTED_BASE = Fraction(1, 1_000_000_000)
_LARGEST_TIME = 2**62
# Numbers further apart than this are no frame numbers: not even nanoseconds of three days.
_LARGEST_SPAN = 1 << 48


class FrameTimes(NamedTuple):
    """Times of frames in units of ``time_base`` seconds; ``rate`` is the nominal one, 0 if unknown."""

    pts: npt.NDArray[np.int64]
    time_base: Fraction
    rate: Fraction


def times_of_files(source: FolderSource) -> FrameTimes:
    """Return the time of each file of a folder. Without listed times or frame numbers in names they come evenly.

    Raises:
        SourceError: the list of times cannot be read.
        ConfigurationError: it does not give each file a time, or times fall.
    """
    if source.timestamps is not None:
        return FrameTimes(_listed_times(source), _LISTED_BASE, Fraction(0))
    return times_of_names([os.path.basename(file) for file in source.files], source.numbers, source.fps)


def times_of_names(names: Sequence[str], columns: npt.NDArray[np.int64] | None, fps: Fraction) -> FrameTimes:
    """Return the time of each file of a folder at a rate, by its name.

    Args:
        names: names in natural order.
        columns: the columns of numbers in them, if they differ in nothing else; see ``FolderSource.numbers``.
        fps: file numbers per second.
    """
    numbers = file_numbers(names, columns)
    if numbers is None:
        has_numbers = any(len(number_parts(name)) > 1 for name in names)
        return FrameTimes(np.arange(len(names)), 1 / fps, Fraction(0) if has_numbers else fps)
    return FrameTimes(numbers, 1 / fps, fps)


class OddTimes(NamedTuple):
    """Facts about the times of one folder that ``tell_of_frame_times`` warns of.

    Attributes:
        source, files: the folder, and the number of its files.
        missing: the number of numbers that are missing between those of the files. Equally spaced ones are complete.
        uncounted: whether the numbers in the names are not frame numbers.
        unrated: whether no rate was given.
    """

    source: str
    files: int
    missing: int
    uncounted: bool
    unrated: bool


def odd_times(source: str, times: FrameTimes) -> OddTimes | None:
    """Return what there is to tell of a folder's times, if anything."""
    if len(times.pts) < 2 or times.time_base == _LISTED_BASE:
        return None
    missing = 0
    if times.pts[-1] - times.pts[0] >= len(times.pts):  # the smallest gap, if no two files share a time
        steps = np.diff(times.pts)
        missing = int((steps // np.gcd.reduce(steps) - 1).sum())
    uncounted = not missing and not times.rate
    unrated = times.time_base == 1 and not split_times(source)[1]
    return OddTimes(source, len(times.pts), missing, uncounted, unrated) if missing or uncounted or unrated else None


def odd_times_of(index: VideoIndex) -> OddTimes | None:
    """Return what there is to tell of the times of a video, if it is a folder of image files."""
    times = FrameTimes(index.frame_pts, index.stream.time_base, index.stream.frame_rate)
    return odd_times(index.source, times) if index.container == "images" else None


def tell_of_frame_times(found: Iterable[OddTimes | None], in_seconds: bool = False) -> None:
    """Warn once of numbers that are missing among image files, and once of names without frame numbers.

    If frames are asked for in seconds, also warn once of folders for which no rate was given.
    """
    # Threads have found them in any order, and some once for each row.
    odd = sorted({each for each in found if each is not None})
    missing = {each.source: each.missing for each in odd if each.missing}
    files = sum(each.files for each in odd if each.missing)
    uncounted = [each.source for each in odd if each.uncounted]
    unrated = [each.source for each in odd if each.unrated and in_seconds]
    if unrated:
        warn_user(
            f"{_named(unrated)}: frames are asked for in seconds, but no rate is given, so each image file counts "
            "as one second: give from_frame_folders fps=25, or end the path with ::fps=25"
        )
    if missing:
        warn_user(
            f"{_named([*missing])}: {sum(missing.values())} numbers are missing between those of {files} image files: "
            "the video has gaps there, because a file's number is its time"
        )
    if uncounted:
        warn_user(
            f"{_named(uncounted)}: the numbers in the names of image files are not frame numbers, so frames are spaced "
            "evenly; a pattern such as left_*.png chooses one sequence of several, timestamps= gives times"
        )


def _named(sources: Sequence[str]) -> str:
    return sources[0] + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")


def file_numbers(names: Sequence[str], columns: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64] | None:
    """Return the numbers in names that are in natural order, counted from the first one's: int64[N].

    The number is the first part in which the names differ, whatever its leading zeros and whatever follows it.

    Args:
        names: the names.
        columns: see ``times_of_names``; it spares most of the work.

    Returns:
        The numbers, or None if the names first differ in something else, share a number, or the numbers are too far
        apart.

    Examples:
        >>> file_numbers(["clip7_0008_a.png", "clip7_0009_b.png", "clip7_12.png"]).tolist()
        [0, 1, 4]
    """
    if len(names) == 1:
        return np.zeros(1, np.int64)
    parts: Iterable[tuple[int, Sequence[Any]]]
    if columns is None:
        parts = enumerate(zip(*map(number_parts, names), strict=False))
    else:
        parts = ((1, column) for column in columns.tolist())
    for place, column in parts:
        if len(set(column)) == 1:
            continue
        if place % 2 == 0:
            return None
        first, last = int(column[0]), int(column[-1])
        if last - first > _LARGEST_SPAN:
            return None
        numbers = np.array([int(number) - first for number in column], np.int64)
        return numbers if (np.diff(numbers) > 0).all() else None
    return None


def _listed_times(source: FolderSource) -> npt.NDArray[np.int64]:
    """Return the given times, rounded down so that looking up a time as it was given finds its frame: int64[N]."""
    given, listed = source.timestamps, source.name
    if isinstance(given, str):
        listed = source.timestamps_file
        times = _read_times(listed, [os.path.basename(file) for file in source.files])
    else:
        times = list(given or ())
    if len(times) != len(source.files):
        raise ConfigurationError(f"has {len(times)} times for the {len(source.files)} files of {source.name}", listed)
    units = [time // _LISTED_BASE for time in times]
    if any(abs(unit) > _LARGEST_TIME for unit in units):
        raise ConfigurationError("has times that are too large to be seconds", listed)
    pts = np.array(units, np.int64)
    if (falls := np.flatnonzero(np.diff(pts) < 0)).size:
        before, after = (os.path.basename(source.files[int(falls[0]) + place]) for place in (0, 1))
        raise ConfigurationError(f"shows {after} before {before}: times must rise in the order of the files", listed)
    return pts


def _seconds(text: str) -> Fraction:
    return exact("seconds", number_of_text(text))


def _read_times(path: str, names: Sequence[str]) -> list[Fraction]:
    """Read seconds from a text file: one number per line in the files' order, or ``name,seconds`` in any order."""
    try:
        with csv_within_limits():
            rows = [row for row in csv.reader(lines(path, "list of times")) if row and not row[0].startswith("#")]
    except csv.Error as error:
        raise SourceError(f"the list of times cannot be read ({error})", path) from None
    if len(rows) - 1 > len(names) and not any(len(row) > 1 for row in rows):  # or reading the numbers takes long
        raise ConfigurationError(f"has {len(rows)} lines for the {len(names)} files", path)
    by_name: dict[str, Fraction] = {}
    in_order: list[Fraction] = []
    for number, row in enumerate(rows):
        try:
            seconds = _seconds(row[-1].strip())
        except (ValueError, ArithmeticError, ConfigurationError):
            if number == 0:  # a header
                continue
            raise ConfigurationError(
                f"{','.join(row)!r} is not a time: a line must be a number of seconds, or name,seconds", path
            ) from None
        in_order.append(seconds)
        if len(row) > 1:
            name = os.path.basename(row[0].strip())
            if by_name.setdefault(name, seconds) != seconds:
                raise ConfigurationError(f"has two times for {name}", path)
    if not by_name:
        return in_order
    if unknown := [name for name in names if name not in by_name]:
        raise ConfigurationError(
            f"has no time for {unknown[0]} and {len(unknown) - 1} more of {len(names)} files", path
        )
    return [by_name[name] for name in names]
