"""Bases of frame modes: checks of their fields, the ``repr`` of saved states, and numbers of clips."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from videoloader.errors.checks import check_count, check_flag
from videoloader.errors.short_text import repr_of
from videoloader.padding import check_mode
from videoloader.sampling.columns import Pad, PadColumn, pad_of
from videoloader.sampling.sampled_video import SampledVideo

_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "int": check_count,
    "int | None": lambda name, value: value is None or check_count(name, value),
    "bool": check_flag,
    "Pad": lambda name, value: isinstance(value, PadColumn) or check_mode(value),
}


class CheckedFields:
    """Base of frame modes: checks that integers are positive, and that flags and padding modes are valid."""

    def __post_init__(self) -> None:
        for owner in type(self).__mro__:
            if owner.__module__.startswith("videoloader."):  # a user's own fields may be anything
                for name, kind in vars(owner).get("__annotations__", {}).items():
                    if kind in _CHECKS:
                        _CHECKS[kind](name, getattr(self, name))


class SavedRepr:
    """A frozen dataclass whose ``repr`` shows fields that were added in later versions only when they are set.

    Loader states hold the ``repr`` of their modes, so states saved before a field existed still match. Declare such
    fields with ``field(repr=False)``, and the class with ``dataclass(repr=False)``.
    """

    def __repr__(self) -> str:
        named = [(each, getattr(self, each.name)) for each in fields(self)]  # type: ignore[arg-type]
        shown = [f"{each.name}={repr_of(value)}" for each, value in named if each.repr or value != each.default]
        return f"{type(self).__name__}({', '.join(shown)})"


class CountedByLength(CheckedFields, ABC):
    """A mode whose number of clips follows from a video's number of frames and the padding mode.

    All its clips have the same number of frames.
    """

    same_length: ClassVar[bool] = True

    pad: Pad

    def num_clips(self, video: SampledVideo) -> int:
        """The number of clips in the video."""
        return int(self._clips(np.array(video.stop - video.first), pad_of(self.pad, video)))

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with these numbers of frames; None where padding depends on the video."""
        return None if isinstance(self.pad, PadColumn) else self._clips(frames, check_mode(self.pad))

    @abstractmethod
    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        """int64, the shape of ``frames``: the number of clips in videos with so many frames under a padding mode."""


class OneClip(CheckedFields):
    """A mode that makes one clip of every video that has a frame."""

    def num_clips(self, video: SampledVideo) -> int:
        """1."""
        return int(video.stop > video.first)

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64[V]: ``num_clips`` of videos with these numbers of frames."""
        return (frames > 0).astype(np.int64)
