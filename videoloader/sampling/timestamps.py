"""The frame mode whose frames are listed by time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from math import ceil, floor
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from videoloader.errors import FrameRangeError
from videoloader.errors.checks import check_choice
from videoloader.sampling.columns import Pad, pad_of, times_of
from videoloader.sampling.exact_time import (
    Time,
    as_times,
    first_at_or_after,
    last_at_or_before,
    on_clock,
    screen_time,
    told_span,
)
from videoloader.sampling.mode_bases import OneClip
from videoloader.sampling.sampled_video import SampledVideo

At = Literal["nearest", "before", "after"]


@dataclass(frozen=True)
class Timestamps(OneClip):
    """One clip with the frames at these presentation times, in any order, repeats allowed.

    Times count from the file's start, as in ``Video.timestamps``, even where a data set's row covers only a part of the
    video. (With ``times="pts"`` they are raw timestamps; where a stream restarts its timestamps, they continue from the
    frame before, as in ``VideoIndex.clock``.) They are compared in the video's own units, to which containers round the
    times of frames: a time means the nearest whole unit if that is at most half a millisecond away, so ``n / fps``
    finds frame n even where the file counts milliseconds. All other times are compared exactly, a float as the decimal
    that it prints as (0.12 is 3/25).

    Args:
        seconds: sequence of numbers, or str. The times, as floats, integers or fractions, or the name of a data set
            column in which each row lists its own, as a list or as text: ``0.5 1.25`` or ``[0.5, 1.25]``.
        at: str, default ``"nearest"``. ``"nearest"`` takes the frame whose timestamp is nearest, the earlier of two
            equally near timestamps; ``"before"`` takes the last frame that is not after the time, the one on screen
            then; ``"after"`` takes the first that is not before it. Where several frames have the same timestamp,
            ``"nearest"`` and ``"before"`` take the last of them, which stays on screen, and ``"after"`` takes the
            first. A time finds no frame if it is after the end of the range's last frame, or before its first frame by
            more than the average duration of its frames.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode where a time finds no frame.

    Raises:
        ConfigurationError: there are no times, one is not a finite number, or another argument is unknown.

    Examples:
        25 frames a second, ``Timestamps([0.05, 0.12])``; 0.05 s is nearer to 0.04 s than to 0.08 s:

            frame     0     1     2     3     4
            seconds   0   0.04  0.08  0.12  0.16
            clip 0          ■           ■
    """

    in_seconds: ClassVar[bool] = True

    seconds: Sequence[Time] | str
    _: KW_ONLY
    at: At = "nearest"
    pad: Pad = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, str):
            object.__setattr__(self, "seconds", as_times("seconds", self.seconds))
        super().__post_init__()
        check_choice("at", self.at, get_args(At))

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[len(seconds)]. Nothing is random.

        Raises:
            FrameRangeError: a time finds no frame, and ``pad="none"``.
            ConfigurationError: the row lists no times.
        """
        index, first, stop = video.index, video.first, video.stop
        listed = times_of(video, self.seconds) if isinstance(self.seconds, str) else self.seconds
        units = [on_clock(index, time) for time in listed]
        before = last_at_or_before(index, map(floor, units)).clip(first - 1, stop - 1)
        if self.at == "before":
            frames = before
        elif self.at == "after":
            frames = first_at_or_after(index, map(ceil, units)).clip(first, stop)
        else:
            low, high = before.clip(first), (before + 1).clip(None, stop - 1)
            middle = zip(index.clock[low].tolist(), index.clock[high].tolist(), units, strict=True)
            frames = np.where([2 * unit <= early + late for early, late, unit in middle], low, high)
        begin, end = screen_time(video)
        slack = Fraction(end - begin, stop - first)
        frames[[unit < begin - slack for unit in units]] = first - 1
        frames[[unit > end for unit in units]] = stop
        outside = (frames < first) | (frames >= stop)
        if outside.any() and pad_of(self.pad, video) == "none":
            time = listed[int(outside.argmax())]
            try:
                missing = float(time)
            except OverflowError:
                missing = math.copysign(math.inf, 1 if time > 0 else -1)
            where = "near" if self.at == "nearest" else self.at
            raise FrameRangeError(
                f"no frame of {first} to {stop - 1} is at or {where} {missing} s: they last {told_span(video)}",
                index.source,
            )
        return frames
