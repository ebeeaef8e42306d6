"""Read a folder's image files as one sequence of bytes: a video stored as single frames."""

from __future__ import annotations

import fnmatch
import io
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, SourceError, StaleIndexError, UnsupportedError
from videoloader.errors.checks import check
from videoloader.errors.short_text import short_text
from videoloader.indexing.exact_numbers import exact, exact_rate, number_of_text
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.natural_order import in_natural_order
from videoloader.indexing.sources.regular_file import is_folder, is_folder_entry, kind_at, open_regular
from videoloader.indexing.sources.state import SourceState, host, require_same, state_of_file
from videoloader.runtime.cached_property import cached_property

IMAGE_EXTENSIONS = ("bmp", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")
IMAGE_ENDINGS = tuple(f".{extension}" for extension in IMAGE_EXTENSIONS)
# This limit turns the float 1/3 into 1/3, and keeps NTSC rates.
_LARGEST_FPS, _LARGEST_FPS_DENOMINATOR = 1_000_000_000, 1001
# Each place before two colons.
_COLONS = re.compile("(?=::)")
_MOST_TIMES = 1 << 22  # in a list that is looked at as a whole
_STORED = "folder"  # with which a folder's fingerprint in an index store begins
# What may follow the path of a folder: ``davis/bear::fps=24``.
_TIMED = re.compile(r"(.+)::(fps|timestamps)=(.+)", re.DOTALL)
# The seconds of each file, or the path of a list of them.
Timestamps: TypeAlias = "str | os.PathLike[str] | Iterable[float | Fraction] | npt.NDArray[np.floating[Any]]"
_Marks: TypeAlias = tuple[int, int, int, int]  # see ``_marks_of``


class FolderSource(SourceBase):
    """The image files of a folder in natural order ("im2" before "im10"), as if written one after the other.

    Hidden files, other kinds of files, and subfolders are left out. Each file is opened only while it is read, so any
    number of threads may read, and no descriptors stay open.

    Frames are numbered in the order of the files. The numbers in their names say when they are shown, counted from the
    first file: at 10 fps, im2, im3 and im6 are shown at 0, 0.1 and 0.4 s. The number is the first part in which the
    names differ; leading zeros and text after it do not matter. If the numbers are not equally spaced, one warning says
    how many are missing. If names first differ in something else, or share a number (``left_1``, ``right_1``), they
    give no times: frames are then taken to come evenly, with a warning if the names contain numbers. Listed times are
    used as they are.

    Args:
        path: str or path. A folder; or a folder and a pattern of ``*`` and ``?`` (as in ``fnmatch``), if the folder has
            more than one sequence. Wherever a path is taken, ``"davis/bear::fps=24"`` and
            ``"davis/bear::timestamps=times.txt"`` also give the arguments below.
        fps: number, default 1 a second, so that seconds are numbers. The file numbers per second.
        timestamps: sequence of numbers or path, default none. The seconds of each file in order, as a list or array; or
            the path of a text file, relative to the folder, with one number of seconds per line in that order, or with
            ``name,seconds`` for at least all files, with or without a header. Times may be equal, but never fall.

    Attributes:
        name: path as given, followed by the rate or the file of times if one was given.
        size: bytes of all files.
        fps: file numbers per second; 1 if times are listed.
        timestamps: path as given, or the seconds; None if there are none.
        files: paths of the files, in order.
        numbers: int64[K, N], the K numbers in the name of each file; None if the names do not differ in numbers alone.
        offsets: start of each file, and finally the end of the last one.

    Raises:
        SourceError: the folder cannot be read, or has no image files (that match the pattern).
        ConfigurationError: ``fps`` is no positive number, ``timestamps`` are no seconds, or both are given.

    Examples:
        >>> video = Video(FolderSource("davis/bear", fps=24))
        >>> left = Video(FolderSource("stereo/left_*.png", timestamps=[0, 0.04]))
    """

    # Between two files there are only other files, each of which would have to be opened.
    read_through = 0

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fps: float | Fraction | str | None = None,
        timestamps: Timestamps | None = None,
    ) -> None:
        plain, told = split_times(os.fspath(path))
        if told and (fps is not None or timestamps is not None):
            raise ConfigurationError(
                "its path already gives its times: do not pass fps or timestamps as well", os.fspath(path)
            )
        fps, timestamps = told.get("fps", fps), told.get("timestamps", timestamps)
        self.name = plain + times_suffix(plain, fps, timestamps)
        self.fps = _rate(plain, 1 if fps is None else fps)
        self.timestamps: str | tuple[Fraction, ...] | None = None
        if isinstance(timestamps, str | os.PathLike):
            self.timestamps = os.fspath(timestamps)
        folder, pattern = _folder_and_pattern(plain)
        self._folder = folder or "."
        # Taken before the folder is listed, so that no later change is missed.
        self._changed, self._marks_of_times = time_of_change(self._folder), self._marks_of_list()
        found = _image_files(folder, pattern, self.name)
        names, self.numbers = in_natural_order(found)
        self.files = list(map(os.path.join(folder, "").__add__, names))
        if timestamps is not None and self.timestamps is None:  # a list, whose length is checked
            self.timestamps = _as_seconds(plain, timestamps, len(names))
        try:
            self._listed = [_marks_of(found[name].stat()) for name in names]
        except OSError as error:
            raise _unreadable(error, self.name) from None
        self.offsets = [0, *accumulate(size for size, *_ in self._listed)]
        self.size = self.offsets[-1]
        self._host, self._file_changed = host(), False

    @property
    def timestamps_file(self) -> str:
        """Path of the list of times; "" if there is none."""
        return os.path.join(self._folder, self.timestamps) if isinstance(self.timestamps, str) else ""

    def _marks_of_list(self) -> list[_Marks]:
        """Return the marks of the list of times, or none if there is no such list."""
        with suppress(OSError, ValueError):
            return [_marks_of(os.stat(self.timestamps_file))] if self.timestamps_file else []
        return []

    @property
    def _times_changed(self) -> int | None:
        return next((time for _, time, _, _ in self._marks_of_times), None)

    @cached_property
    def fingerprint(self) -> str:
        """Two short texts: for the names, sizes and times of change of the files, and for their frame times."""
        names = [os.path.basename(file) for file in self.files]
        files = names, self.offsets, [time for _, time, _, _ in self._listed]
        times = str(self.fps), str(self.timestamps), self._times_changed
        return "-".join(blake2b(repr(each).encode(), digest_size=16).hexdigest() for each in (files, times))

    @cached_property
    def state(self) -> SourceState:
        """A mark that changes with the files. Numbers made of all inodes, and of their times, stand for one inode's."""
        all_marks = self._listed + self._marks_of_times
        inodes, changed = (hash(tuple(marks[part] for marks in all_marks)) for part in (2, 3))
        return SourceState(self.fingerprint, inodes, changed, self._host)

    def is_current(self) -> bool:
        """Whether no file was added, removed, renamed or found to have changed since, nor the list of times written."""
        unchanged = self._changed is not None and self._changed == time_of_change(self._folder)
        return unchanged and not self._file_changed and self._marks_of_times == self._marks_of_list()

    def check_unchanged(self, known: SourceState | None = None) -> None:
        """Check that the listed files are those of an index. Each file is checked when it is read.

        Args:
            known: SourceState, default None. The state of the folder when it was indexed.

        Raises:
            StaleIndexError: the files differ.
        """
        if known is not None and known.fingerprint != folder_fingerprint(self._changed, self._times_changed):
            require_same(known, self.state, self.name)

    def file_at(self, offset: int) -> str:
        """Return the path of the file that contains a byte."""
        return self.files[min(bisect_right(self.offsets, offset) - 1, len(self.files) - 1)]

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly ``size`` bytes from ``offset``; fewer only where the last file ends.

        Raises:
            SourceError: a file cannot be read.
            StaleIndexError: a file's size or time of change differs from when the folder was listed.
        """
        stop = min(offset + size, self.size)
        number = bisect_right(self.offsets, offset) - 1
        parts = []
        while offset < stop:
            end = min(stop, self.offsets[number + 1])
            parts.append(self._read_file(number, offset - self.offsets[number], end - offset))
            offset, number = end, number + 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_file(self, number: int, position: int, size: int) -> bytes:
        file = self.files[number]
        try:
            descriptor = open_regular(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(descriptor, size, position)
                status = os.fstat(descriptor)  # after reading, since the file may be written to at any time
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SourceError(f"cannot be read ({error.strerror})", file) from None
        if _marks_of(status) != self._listed[number]:
            length, time, inode, changed = self._listed[number]
            listed = SourceState(f"{length}-{time}", inode, changed, self._host)
            try:
                require_same(listed, state_of_file(status), file)
            except StaleIndexError:
                self._file_changed = True
                raise
        return data

    def open(self) -> io.BufferedIOBase:
        """Raise UnsupportedError: file objects are for containers, and a sequence of image files is none.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("is a folder of image files, not one file", self.name)


class FolderNames(NamedTuple):
    """Facts that a listing tells of a ``FolderSource``: its ``name``, names of files, ``numbers`` and ``fps``."""

    source: str
    names: list[str]
    numbers: npt.NDArray[np.int64] | None
    fps: Fraction


def list_names(path: str) -> FolderNames | None:
    """Return the names of the image files of a folder, without looking at any; None if their times are listed.

    Raises:
        SourceError, ConfigurationError: as in ``FolderSource``.
    """
    plain, told = split_times(path)
    if "timestamps" in told:
        return None
    fps = told.get("fps")
    name, rate = plain + times_suffix(plain, fps, None), _rate(plain, fps) if fps else Fraction(1)
    return FolderNames(name, *in_natural_order(_image_files(*_folder_and_pattern(plain), name)), rate)


def folder_fingerprint(changed: int | None, times_changed: int | None) -> str:
    """Return the mark of a folder and its list of times in an index store, by their times of change in nanoseconds."""
    return f"{_STORED}-{changed}" + (f"-{times_changed}" if times_changed is not None else "")


def state_of_files(known: SourceState) -> SourceState:
    """Return the state of a folder's files, whatever their times; the folder's state if it is from an index store."""
    files, _, _ = known.fingerprint.partition("-")
    return known if files == _STORED else replace(known, fingerprint=files)


def split_times(path: str) -> tuple[str, dict[str, str]]:
    """Return a path without its times, and the times: ``{"fps": "24"}``, ``{"timestamps": "times.txt"}`` or ``{}``.

    Examples:
        >>> split_times("davis/bear::fps=24")
        ('davis/bear', {'fps': '24'})
    """
    told = _TIMED.fullmatch(path)
    return (told[1], {told[2]: told[3]}) if told and not kind_at(path) else (path, {})


def times_suffix(source: str, fps: float | Fraction | str | None, timestamps: Timestamps | None) -> str:
    """Return the suffix of a path for these arguments of ``FolderSource``; empty for seconds in a list.

    Raises:
        ConfigurationError: both are given, or the rate is not a rate.
    """
    if fps is not None and timestamps is not None:
        raise ConfigurationError("pass either fps or timestamps, not both", source)
    if isinstance(timestamps, str | os.PathLike):
        return f"::timestamps={os.fspath(timestamps)}"
    return "" if fps is None else f"::fps={_rate(source, fps)}"


def _rate(source: str, fps: float | Fraction | str) -> Fraction:
    try:
        given = number_of_text(fps) if isinstance(fps, str) else fps
        rate = exact_rate(given).limit_denominator(_LARGEST_FPS_DENOMINATOR)
    except (ConfigurationError, ArithmeticError, ValueError):
        rate = Fraction(0)
    check("fps", fps, rate > 0, "a positive number", source=source)
    check("fps", fps, rate <= _LARGEST_FPS, f"at most {_LARGEST_FPS:,}", source=source)
    return rate


def _as_seconds(source: str, timestamps: Any, files: int) -> tuple[Fraction, ...]:
    """Return a list of times as the decimals that they print as. Of an endless one, one time too many suffices."""
    try:
        try:
            is_short = len(timestamps) <= _MOST_TIMES
        except (TypeError, OverflowError):  # an iterator; a range longer than any list
            is_short = False
        listed = timestamps if is_short else list(islice(timestamps, files + 1))
        return tuple(exact("timestamps", number_of_text(str(each))) for each in np.asarray(listed).tolist())
    # The last error is that of tensors that have no values, or a gradient.
    except (ConfigurationError, ArithmeticError, ValueError, TypeError, RuntimeError):
        raise ConfigurationError(
            f"timestamps must be a list of seconds, or the path of one, got {short_text(timestamps)}", source
        ) from None


def _marks_of(status: os.stat_result) -> _Marks:
    """Return the size, time of change, inode, and time of change of the inode."""
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def time_of_change(path: str) -> int | None:
    """Return the time of change in nanoseconds; None if the file or folder does not exist any more."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):  # no file can have a NUL in its name
        return None


def is_frame_folder(path: str) -> bool:
    """Whether a path, perhaps with times, is for a FolderSource.

    That is a folder, or a pattern for files in one, unless a file has that name, or a part of it before a "::".

    Raises:
        SourceError: a part of the path cannot be reached.
    """
    path, _ = split_times(path)
    kind = kind_at(path)
    folder, name = os.path.split(path)
    if kind or not {"*", "?"} & set(name):
        return kind == stat.S_IFDIR
    archives = (os.path.join(folder, name[: at.start()]) for at in _COLONS.finditer(name) if at.start())
    return is_folder(folder or ".") and not any(map(kind_at, archives))


def frame_folder_places(path: str) -> tuple[str, list[str]]:
    """Return the folder that a FolderSource of a path lists, and the files that it reads beside its images."""
    path, times = split_times(path)
    folder = _folder_and_pattern(path)[0] or "."
    return folder, [os.path.join(folder, listed) for name, listed in times.items() if name == "timestamps"]


def links_in(folder: str) -> list[str]:
    """Return the paths of all links in a folder.

    Raises:
        SourceError: the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_symlink()]
    except OSError as error:
        raise SourceError(f"cannot be read ({error.strerror})", folder) from None


def is_image_path(path: str) -> bool:
    """Whether a path ends as those of image files do, and is no pattern for the files of a folder."""
    return path.lower().endswith(IMAGE_ENDINGS) and not {"*", "?"} & set(path)


def is_image_name(name: str) -> bool:
    """Whether a file's name has an image's extension and does not begin with a dot."""
    return name.lower().endswith(IMAGE_ENDINGS) and not name.startswith(".")


def _folder_and_pattern(path: str) -> tuple[str, str]:
    folder, name = os.path.split(path)
    # For other names nothing needs to be asked.
    return (folder, name) if {"*", "?"} & set(name) and not is_folder(path) else (path, "*")


def _image_files(folder: str, pattern: str, source: str) -> dict[str, os.DirEntry[str]]:
    """Return the image files in a folder by name."""
    matches = re.compile(fnmatch.translate(pattern)).match
    files: dict[str, os.DirEntry[str]] = {}
    others: dict[str, int] = {}
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                if is_image_name(entry.name) and matches(entry.name):
                    if entry.is_file():
                        files[entry.name] = entry
                        continue
                    entry.stat()  # fails for a link that leads nowhere
                kind = "folder" if is_folder_entry(entry) else os.path.splitext(entry.name)[1].lower() or "no ending"
                others[kind] = others.get(kind, 0) + 1
    except OSError as error:
        raise _unreadable(error, source) from None
    if not files:
        there = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items(), key=lambda item: -item[1])[:5])
        of_pattern = "" if pattern == "*" else f" that match {pattern!r}"
        hint = (
            "; VideoDataset.from_folder and `videoloader describe` take a folder of videos"
            if others and not of_pattern
            else ""
        )
        raise SourceError(f"holds no image files{of_pattern}; it contains: {there or 'nothing'}{hint}", source)
    return files


def _unreadable(error: OSError, source: str) -> SourceError:
    return SourceError(f"cannot be read ({error.strerror})", error.filename or source)
