"""Give times to the frames of a folder of image files, by the numbers in their names or a list of times."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, SourceError, warn_user
from videoloader.indexing.exact_numbers import exact
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.folder import FolderSource, number_parts, split_times
from videoloader.indexing.sources.regular_file import open_regular

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
    names = [os.path.basename(file) for file in source.files]
    numbers = file_numbers(names)
    if numbers is None:
        has_numbers = any(len(number_parts(name)) > 1 for name in names)
        return FrameTimes(np.arange(len(names)), 1 / source.fps, Fraction(0) if has_numbers else source.fps)
    return FrameTimes(numbers, 1 / source.fps, source.fps)


def tell_of_frame_times(indexes: Iterable[VideoIndex], in_seconds: bool = False) -> None:
    """Warn once of numbers that are missing among image files, and once of names without frame numbers.

    Numbers that are equally spaced count as complete. If frames are asked for in seconds, also warn once of folders for
    which no rate was given.
    """
    missing: dict[str, int] = {}
    files = 0
    uncounted, unrated = list[str](), list[str]()
    for index in sorted(indexes, key=lambda index: index.source):  # threads have made them in any order
        if index.container != "images" or len(index) < 2 or index.stream.time_base == _LISTED_BASE:
            continue
        if in_seconds and index.stream.time_base == 1 and not split_times(index.source)[1]:
            unrated.append(index.source)
        steps = np.diff(index.frame_pts)
        if gaps := int((steps // np.gcd.reduce(steps) - 1).sum()):
            missing[index.source] = gaps
            files += len(index)
        elif not index.stream.frame_rate:
            uncounted.append(index.source)
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


def file_numbers(names: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """Return the numbers in names that are in natural order, counted from the first one's: int64[N].

    The number is the first part in which the names differ, whatever its leading zeros and whatever follows it.

    Returns:
        The numbers, or None if the names first differ in something else, share a number, or the numbers are too far
        apart.

    Examples:
        >>> file_numbers(["clip7_0008_a.png", "clip7_0009_b.png", "clip7_12.png"]).tolist()
        [0, 1, 4]
    """
    if len(names) == 1:
        return np.zeros(1, np.int64)
    for place, column in enumerate(zip(*map(number_parts, names), strict=False)):
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
    return Fraction(text) if "/" in text else exact("seconds", Decimal(text))


def _read_times(path: str, names: Sequence[str]) -> list[Fraction]:
    """Read seconds from a text file: one number per line in the files' order, or ``name,seconds`` in any order."""
    try:
        with open(path, encoding="utf-8-sig", newline="", opener=open_regular) as file:
            rows = [row for row in csv.reader(file) if row and not row[0].startswith("#")]
    except (OSError, ValueError, csv.Error) as error:
        raise SourceError(f"the list of times cannot be read ({error})", path) from None
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
