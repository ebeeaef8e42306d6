"""One row of a data set: a video or a part of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any

from videoloader.errors import ConfigurationError

ENDS = ("start", "stop", "start_seconds", "stop_seconds")
# Labels travel as int64, and tables keep the lowest of these for "no label".
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class VideoEntry:
    """One row of a data set: a video or a part of one. Each end is given in frames, in seconds or not at all.

    Args:
        path: of the video, in any form that ``Video`` takes.
        label: number of its class.
        start, stop: frame numbers, stop exclusive.
        start_seconds, stop_seconds: presentation times; the frames from the first to before the second.
        columns: anything else known about it; travels with the clips.

    Raises:
        ConfigurationError: an argument has the wrong type, an end is given twice, or the part is empty.

    Example:
        ``VideoEntry("match.mp4", label=3, start_seconds=61.5, stop_seconds=64.0)``
    """

    path: str
    label: int | None = None
    _: KW_ONLY
    start: int | None = None
    stop: int | None = None
    start_seconds: float | None = None
    stop_seconds: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ConfigurationError(f"path must be a non-empty string, got {self.path!r}")
        for name, value in (("label", self.label), ("start", self.start), ("stop", self.stop)):
            if value is not None and not (isinstance(value, Integral) and abs(value) <= _LARGEST):
                raise ConfigurationError(f"{name} must be an Integral number of 64 bits, got {value!r}", self.path)
        for name, seconds in (("start_seconds", self.start_seconds), ("stop_seconds", self.stop_seconds)):
            if seconds is not None and not (isinstance(seconds, Real) and abs(seconds) < math.inf):
                raise ConfigurationError(f"{name} must be a Real number, got {seconds!r}", self.path)
        if None not in (self.start, self.start_seconds) or None not in (self.stop, self.stop_seconds):
            raise ConfigurationError(f"an end must be given in frames or in seconds, got {self._ends()}", self.path)
        first, begin, end = self.start or 0, self.start_seconds, self.stop_seconds
        no_frames = first < 0 or (self.stop is not None and self.stop <= first)
        if no_frames or (begin is not None and end is not None and begin >= end):
            raise ConfigurationError(f"start must be at least 0 and less than stop, got {self._ends()}", self.path)

    def _ends(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in ENDS)
