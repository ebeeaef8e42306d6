"""One row of a data set: a video or a part of one."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, get_args

from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.errors.attribute_names import RowColumns, tells_of_attributes
from videoloader.errors.checks import ClassNumber, check_choice, is_finite, is_integer
from videoloader.indexing.index import Times

FROM_END = "; no number counts from the end, as DALI's do: leave stop out to read to the end"
FROM_END_START = ", where the file starts at 0 s; no number counts from the end: leave start out to read from its start"
ENDS = ("start", "stop", "start_seconds", "stop_seconds")
# Labels are stored as int64, whose lowest value means "no label" in tables.
_LARGEST = 2**63 - 1
_TIMES = get_args(Times)


@tells_of_attributes("entry")
@dataclass(frozen=True, slots=True)
class VideoEntry:
    """One row of a data set: a video or a part of one. Each end may be given in frames or in seconds.

    Args:
        path: str or path. The video in any form that ``Video`` takes.
        label: int, default None, no label. The number of its class, from 0; -1 also means no label.
        start, stop: int, default None, the ends of the video. Frame numbers, stop exclusive.
        start_seconds, stop_seconds: float, default None, the ends of the video. Seconds from the file's start, stop
            exclusive.
        columns: mapping from str, default empty. Anything else that is known about the video; it is passed on to its
            clips.
        times: str, default ``"start"``. The zero point of the row's seconds, of modes' times and of clips' timestamps:
            ``"start"`` is the file's start as in players, ``"pts"`` the zero of the container's own timestamps; see
            ``Video``.

    Raises:
        ConfigurationError: an argument has the wrong type, an end is given in both units, or the part is empty.

    Examples:
        ``VideoEntry("match.mp4", label=3, start_seconds=61.5, stop_seconds=64.0)``
    """

    path: str
    label: int | None = None
    _: KW_ONLY
    start: int | None = None
    stop: int | None = None
    start_seconds: float | None = None
    stop_seconds: float | None = None
    columns: Mapping[str, Any] = field(default_factory=RowColumns)
    times: Times = "start"

    if TYPE_CHECKING:  # arguments may have more types than the fields

        def __init__(
            self,
            path: str | os.PathLike[str],
            label: SupportsIndex | None = None,
            *,
            start: int | None = None,
            stop: int | None = None,
            start_seconds: float | None = None,
            stop_seconds: float | None = None,
            columns: Mapping[str, Any] = ...,
            times: Times = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if type(self.path) is not str and isinstance(self.path, os.PathLike):
            object.__setattr__(self, "path", os.fspath(self.path))
        if self.label is not None and type(self.label) is not int:
            object.__setattr__(self, "label", plain_integer(self.label))
        if self.label == -1:
            object.__setattr__(self, "label", None)
        if not isinstance(self.path, str) or not self.path:
            raise ConfigurationError(f"path must be a non-empty string, got {self.path!r}")
        if self.label is not None and not (isinstance(self.label, Integral) and 0 <= self.label <= _LARGEST):
            wanted = "the number of a class, counted from 0, or None; from_paths and from_csv take names"
            raise ConfigurationError(f"label must be {wanted}, got {self.label!r}", self.path)
        for name, value in (("start", self.start), ("stop", self.stop)):
            if value is not None and not (is_integer(value) and abs(value) <= _LARGEST):
                wanted = f"the number of a frame, an integer; {name}_seconds takes seconds"
                raise ConfigurationError(f"{name} must be {wanted}, got {value!r}", self.path)
        for name, seconds in (("start_seconds", self.start_seconds), ("stop_seconds", self.stop_seconds)):
            if seconds is not None and not is_finite(seconds):
                raise ConfigurationError(f"{name} must be a number of seconds, got {seconds!r}", self.path)
        if type(self.columns) is not RowColumns:
            if not isinstance(self.columns, Mapping):
                raise ConfigurationError(f"columns must be a dict of names and values, got {self.columns!r}", self.path)
            object.__setattr__(self, "columns", RowColumns(self.columns))
        if None not in (self.start, self.start_seconds) or None not in (self.stop, self.stop_seconds):
            raise self._wrong_ends("give start and stop each once, in frames or in seconds")
        first, begin, end = self.start or 0, self.start_seconds, self.stop_seconds
        last = end if self.stop is None else self.stop
        hint = FROM_END if last is not None and last < 0 else ""
        if first < 0 or (self.stop is not None and self.stop <= first):
            raise self._wrong_ends("start must be at least 0 and less than stop", hint)
        # Annotations may start slightly before the file, and container timestamps anywhere.
        if begin is not None and begin <= -1 and self.times == "start":
            raise self._wrong_ends("start_seconds must be in the file", FROM_END_START)
        if begin is not None and end is not None and begin >= end:
            raise self._wrong_ends("start_seconds must be less than stop_seconds", hint)
        if self.times not in _TIMES:
            check_choice("times", self.times, _TIMES)

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __getitem__(self, place: object) -> NoReturn:
            raise ArgumentError("a VideoEntry is no tuple: write entry.path, entry.label or entry.columns[name]")

    def _wrong_ends(self, wanted: str, hint: str = "") -> ConfigurationError:
        return ConfigurationError(f"{wanted}, got {told_ends(self)}{hint}", self.path)


def told_ends(entry: VideoEntry) -> str:
    """The start and stop that an entry has, as arguments: ``start=10, stop_seconds=2.5``."""
    return ", ".join(f"{name}={value}" for name in ENDS if (value := getattr(entry, name)) is not None)


def for_condition(entry: VideoEntry, classes: int) -> VideoEntry:
    """A row of a data set of so many classes, which nobody else holds, for a user's condition."""
    if entry.label is not None:
        label = ClassNumber(entry.label)
        label.classes = classes
        object.__setattr__(entry, "label", label)
    return entry


def plain_integer(value: Any) -> Any:
    """An integer of any library (NumPy, PyTorch) as a Python int; anything else unchanged."""
    try:
        return operator.index(value)
    except TypeError:  # raised by tensors of floats
        return value
