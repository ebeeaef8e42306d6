"""Frame modes of frame interpolation: some frames to look at, others to make."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, check_flag, check_positive
from videoloader.indexing.index import VideoIndex
from videoloader.sampling.columns import Pad, check_pad, integer_tuple, integers_of
from videoloader.sampling.counting import CountedByLength
from videoloader.sampling.sampled_video import SampledVideo

# Timestamps that were rounded to milliseconds, as in Matroska, differ by so much from even ones.
_ROUNDING = Fraction(1, 1000)


class _Placed(CountedByLength):
    """A mode whose clips are the placements of one pattern of frames."""

    gap: int
    step: int
    even: bool
    cuts: str | None

    def __post_init__(self) -> None:
        check_positive(gap=self.gap, step=self.step)
        check_flag("even", self.even)
        if self.cuts is not None and (not isinstance(self.cuts, str) or not self.cuts):
            raise ConfigurationError(f"cuts must be the name of a column, got {self.cuts!r}")
        check_pad(self.pad)

    @property
    @abstractmethod
    def _places(self) -> npt.NDArray[np.int64]:
        """int64[T]: the frames of the pattern, counted from anywhere."""

    def num_clips(self, video: SampledVideo) -> int:
        """Number of placements."""
        return len(self._starts(video)) if self._leaves_some_out else super().num_clips(video)

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with so many frames; None where that depends on more."""
        return None if self._leaves_some_out else super().clips_by_length(frames)

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T]: 3 of a triplet, else inputs and targets. Nothing is random."""
        start = int(self._starts(video)[clip]) if self._leaves_some_out else video.first + clip * self.step
        return self._places + (start - int(self._places.min()))

    @property
    def _leaves_some_out(self) -> bool:
        return self.even or self.cuts is not None

    @property
    def _extent(self) -> int:
        return int(np.ptp(self._places))

    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        reach = self._extent + 1 if pad == "none" else 1
        return np.maximum((frames - reach) // self.step + 1, 0)

    def _starts(self, video: SampledVideo) -> npt.NDArray[np.int64]:
        """The first frames of the placements, where some are left out."""
        places = super().num_clips(video)
        cuts = () if self.cuts is None else integers_of(video, self.cuts, least=0)
        starts = range(video.first, video.first + places * self.step, self.step)
        return _allowed(video.index, starts, video.stop, self._extent, self.even, cuts)


@dataclass(frozen=True)
class Triplets(_Placed):
    """Every three frames at equal distances, in the order of the video: before, between, after.

    Args:
        gap: distance between neighbours, frames.
        step: distance between the first frames of neighbouring triplets, frames.
        even: leave out triplets whose frames do not come evenly, so that the middle one is not in the middle: where
            the times from frame to frame, those between included, differ by more than rounding explains. That is a
            millisecond or a unit of the timestamps, whichever is more, but at most a quarter of the shortest.
        cuts: column of the data set that lists the first frame of each new scene, as numbers in the whole video, in a
            list or as text ``240 381``. Triplets across a cut are left out. It may be empty.
        pad: padding mode, or a ``PadColumn``. With padding also the triplets at the end that begin in the range.

    Raises:
        ConfigurationError: an argument has no such value.

    Example:
        A video of 8 frames with a cut before frame 4, ``Triplets(cuts="cuts")``::

            frame   0 1 2 3╎4 5 6 7
            clip 0  ■ ■ ■  ╎
            clip 1    ■ ■ ■╎
            clip 2         ╎■ ■ ■
            clip 3         ╎  ■ ■ ■
    """

    gap: int = 1
    _: KW_ONLY
    step: int = 1
    even: bool = False
    cuts: str | None = None
    pad: Pad = "none"

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        return np.array([0, self.gap, 2 * self.gap], np.int64)


@dataclass(frozen=True)
class FrameTuples(_Placed):
    """Every placement of a pattern of input and target frames: first the inputs, then the targets.

    ``batch.frames[:, : len(inputs)]`` are the inputs of a batch, the rest the targets.

    Args:
        inputs: places of the frames to look at, in units of ``gap``.
        targets: places of the frames to make, or one place.
        gap: frames in a unit.
        step: distance between neighbouring placements, frames.
        even, cuts: which placements are left out; see ``Triplets``.
        pad: padding mode, or a ``PadColumn``. With padding also the placements at the end that begin in the range.

    Raises:
        ConfigurationError: an argument has no such value.

    Example:
        Vimeo-90K's septuplets are ``FrameTuples((0, 2, 4, 6), (1, 3, 5), step=7)``. A video of 5 frames,
        ``FrameTuples((0, 2), 1)``, i for inputs and t for targets::

            frame   0 1 2 3 4
            clip 0  i t i               frame numbers 0 2 1
            clip 1    i t i                           1 3 2
            clip 2      i t i                         2 4 3
    """

    inputs: Sequence[int]
    targets: Sequence[int] | int
    _: KW_ONLY
    gap: int = 1
    step: int = 1
    even: bool = False
    cuts: str | None = None
    pad: Pad = "none"

    def __post_init__(self) -> None:
        single = np.ndim(self.targets) == 0
        object.__setattr__(self, "inputs", integer_tuple("inputs", self.inputs))
        object.__setattr__(self, "targets", integer_tuple("targets", [self.targets] if single else self.targets))
        super().__post_init__()

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        targets = (self.targets,) if isinstance(self.targets, int) else self.targets
        return np.array([self.gap * place for place in (*self.inputs, *targets)], np.int64)


# A long video with many clips in a batch: what takes its frames one by one is done once.
@lru_cache(8)
def _allowed(
    index: VideoIndex, starts: range, stop: int, extent: int, even: bool, cuts: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """int64[S]: the starts from which no cut is crossed and, if so wanted, frames come evenly."""
    first = np.array(starts, np.int64)
    # What is made up comes evenly and has no cuts.
    last = np.minimum(first + extent, stop - 1)
    places = np.unique(np.array(cuts, np.int64))
    kept = np.searchsorted(places, first, "right") == np.searchsorted(places, last, "right")
    if even and extent > 1:
        kept &= ~_uneven(index, first, last)
    allowed: npt.NDArray[np.int64] = first[kept]
    return allowed


def _uneven(index: VideoIndex, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """bool[S]: whether frames ``first … last`` come at distances in time that rounding does not explain."""
    if not len(first):
        return np.zeros(0, np.bool_)
    steps = np.diff(index.clock)
    extent = int((last - first).max())
    # Windows at the end reach less far: what is not there repeats the last distance they have.
    column = np.minimum(first[:, None] + np.arange(max(extent, 1)), np.maximum(last - 1, first)[:, None])
    window = np.append(steps, 0)[column]
    longest, shortest = window.max(1), window.min(1)
    rounding = max(1, int(_ROUNDING / index.stream.time_base))
    uneven: npt.NDArray[np.bool_] = (longest - shortest > np.minimum(rounding, shortest // 4)) | (shortest == 0)
    return uneven & (last > first)
