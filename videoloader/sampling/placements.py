"""Places one pattern of frames in a video: everywhere it fits, or at random."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.errors.checks import both_ends, check, integer_range
from videoloader.indexing.index import VideoIndex
from videoloader.sampling.columns import integers_of, pad_of
from videoloader.sampling.mode import KnownFrames
from videoloader.sampling.mode_bases import CountedByLength, SavedRepr
from videoloader.sampling.sampled_video import SampledVideo

# Starts drawn at once. All starts are checked only if none of these is allowed.
_DRAWS = 16
# Starts checked together in the search for an allowed one.
_CHUNK = 64


class Placed(SavedRepr, CountedByLength):
    """A mode whose clips are placements of one pattern of frames: all of them, or a number of random ones."""

    gap: int | tuple[int, int]
    step: int
    even: bool
    cuts: str | None
    clips: int | None

    def __post_init__(self) -> None:
        gaps = integer_range("gap", self.gap)
        if isinstance(self.gap, tuple | list):
            object.__setattr__(self, "gap", gaps)
        super().__post_init__()
        if gaps[0] < gaps[1] and self.clips is None:
            raise ConfigurationError(f"gap={self.gap} is drawn for each clip: give clips=, their number per video")
        is_column = isinstance(self.cuts, str) and self.cuts
        check("cuts", self.cuts, self.cuts is None or is_column, "the name of a column")

    @property
    @abstractmethod
    def _places(self) -> npt.NDArray[np.int64]:
        """int64[P]: the frames of the whole pattern in units of the gap, counted from its first frame."""

    def _draw_places(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T]: the frames of one clip, in the same units."""
        return self._places

    def num_clips(self, video: SampledVideo) -> int:
        """The number of placements; with ``clips``, that many if the video has any."""
        if not self._leaves_some_out:
            return super().num_clips(video)
        least = both_ends(self.gap)[0]
        if self.clips is None:
            return len(self._all_allowed(video, least))
        return self.clips if self._has_any(video, least) else 0

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with these numbers of frames; None where that depends on more."""
        return None if self._leaves_some_out else super().clips_by_length(frames)

    def clips_by_frames(self, known: KnownFrames) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of rows whose video has evenly spaced frames, -1 of other rows."""
        if self.cuts is not None:
            return None
        clips = super().clips_by_length(known.stop - known.first)
        return None if clips is None else np.where(known.is_even, clips, -1)

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T]: the frames of a triplet, or inputs and then targets; random choices are drawn with ``rng``."""
        gap = both_ends(self.gap)[0]
        if self.clips is not None:
            start, gap = self._draw_placement(video, rng)
        elif self._leaves_some_out:
            start = int(self._all_allowed(video, gap)[clip])
        else:
            start = self._starts(video, gap)[clip]
        return start + gap * self._draw_places(rng)

    @property
    def _leaves_some_out(self) -> bool:
        return self.even or self.cuts is not None

    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        reach = self._reach(both_ends(self.gap)[0]) if pad == "none" else 1
        if self.clips is None:
            return np.maximum((frames - reach) // self.step + 1, 0)
        return np.int64(self.clips) * (frames >= reach)

    def _reach(self, gap: int) -> int:
        """The number of frames from the first to the last of the pattern, both included."""
        return gap * int(self._places.max()) + 1

    def _starts(self, video: SampledVideo, gap: int) -> range:
        """The first frames of all placements, including those that are left out."""
        frames, reach = video.stop - video.first, self._reach(gap)
        padded = pad_of(self.pad, video) != "none"
        if self.clips is None:
            places = (frames - (1 if padded else reach)) // self.step + 1
        else:  # a video that is too short has one placement, at its start
            places = max((frames - reach) // self.step + 1, int(padded and frames > 0))
        return range(video.first, video.first + max(places, 0) * self.step, self.step)

    def _draw_placement(self, video: SampledVideo, rng: np.random.Generator) -> tuple[int, int]:
        """(start, gap): a gap with which some placement is allowed, and one of those placements."""
        least, largest = both_ends(self.gap)
        extent, frames = int(self._places.max()), video.stop - video.first
        while True:
            gap = draw_gap(least, largest, extent, frames, rng)
            start = self._draw_start(video, gap, rng)
            if start is not None:
                return start, gap
            # If no placement fits with this gap, none fits with a larger one.
            largest = gap - 1

    def _draw_start(self, video: SampledVideo, gap: int, rng: np.random.Generator) -> int | None:
        starts = self._starts(video, gap)
        if not self._leaves_some_out:
            return starts[int(rng.integers(len(starts)))]
        drawn = starts.start + starts.step * rng.integers(len(starts), size=_DRAWS)
        allowed = _allowed(drawn, self._conditions(video, gap))
        if len(allowed):
            return int(allowed[0])
        allowed = self._all_allowed(video, gap)
        return int(allowed[rng.integers(len(allowed))]) if len(allowed) else None

    def _has_any(self, video: SampledVideo, gap: int) -> bool:
        """Whether any placement is allowed."""
        starts, conditions = self._starts(video, gap), self._conditions(video, gap)
        chunks = (np.array(starts[first : first + _CHUNK]) for first in range(0, len(starts), _CHUNK))
        return any(len(_allowed(chunk, conditions)) for chunk in chunks)

    def _all_allowed(self, video: SampledVideo, gap: int) -> npt.NDArray[np.int64]:
        return _all_allowed(self._starts(video, gap), self._conditions(video, gap))

    def _conditions(self, video: SampledVideo, gap: int) -> _Conditions:
        cuts = () if self.cuts is None else integers_of(video, self.cuts, least=0)
        frames = len(video.index)
        # Detectors of scenes also list the end of the last one.
        if outside := [cut for cut in cuts if not 0 <= cut <= frames]:
            told = f"column {self.cuts!r} has a cut at frame {outside[0]}, which is outside the video's {frames} frames"
            raise FrameRangeError(f"{told}: cuts are frame numbers of the whole video", video.index.source)
        return _Conditions(video.index, video.stop, self._reach(gap) - 1, self.even, cuts)


def draw_gap(least: int, largest: int, extent: int, frames: int, rng: np.random.Generator) -> int:
    """Draw a gap with which a pattern of ``extent`` gaps fits into ``frames`` frames; the least gap where none fits."""
    fitting = min(largest, (frames - 1) // extent) if extent else largest
    return int(rng.integers(least, fitting, endpoint=True)) if least < fitting else least


def even_start(clip: int, clips: int, last: int) -> int:
    """The start of one of ``clips`` clips spread evenly over 0 … ``last``, halves up; one is centred, halves down."""
    gaps = clips - 1
    return (2 * clip * last + gaps) // (2 * gaps) if gaps else last // 2


@dataclass(frozen=True)
class _Conditions:
    """The rules that leave placements out.

    Attributes:
        index: index of the video.
        stop: end of the range.
        extent: distance from the first to the last frame of the pattern, in frames.
        even: whether all frames in that span must be evenly spaced in time.
        cuts: the first frames of scenes.
    """

    index: VideoIndex
    stop: int
    extent: int
    even: bool
    cuts: tuple[int, ...]


def _allowed(first: npt.NDArray[np.int64], conditions: _Conditions) -> npt.NDArray[np.int64]:
    """int64[S]: the starts whose placement crosses no cut and, if ``even``, has evenly spaced frames."""
    # Padding counts as evenly spaced and has no cuts.
    last = np.minimum(first + conditions.extent, conditions.stop - 1)
    places = np.unique(np.array(conditions.cuts, np.int64))
    kept = np.searchsorted(places, first, "right") == np.searchsorted(places, last, "right")
    if conditions.even and conditions.extent > 1:
        kept &= ~_uneven(conditions.index, first, last)
    allowed: npt.NDArray[np.int64] = first[kept]
    return allowed


# A batch may hold many clips of one long video: checking all of its frames is done once.
@lru_cache(8)
def _all_allowed(starts: range, conditions: _Conditions) -> npt.NDArray[np.int64]:
    return _allowed(np.array(starts, np.int64), conditions)


def _uneven(index: VideoIndex, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """bool[S]: whether the times of frames ``first … last`` are spaced more unevenly than rounding explains."""
    if not len(first):
        return np.zeros(0, np.bool_)
    extent = int((last - first).max())
    # Windows at the end are shorter: their missing intervals repeat their last one.
    column = np.minimum(first[:, None] + np.arange(max(extent, 1)), np.maximum(last - 1, first)[:, None])
    window = index.clock[np.minimum(column + 1, last[:, None])] - index.clock[column]
    longest, shortest = window.max(1), window.min(1)
    explained = np.minimum(index.time_rounding, shortest // 4)
    uneven: npt.NDArray[np.bool_] = (longest - shortest > explained) | (shortest == 0)
    return uneven & (last > first)
