"""The frame mode that turns any frame rate, constant or not, into a constant one."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Literal

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, check_positive
from videoloader.indexing.exact_numbers import exact_rate
from videoloader.padding import check_mode
from videoloader.sampling.columns import Pad, PadColumn, check_pad, pad_of
from videoloader.sampling.exact_time import Time, as_times, in_units, last_at_or_before, whole_unit
from videoloader.sampling.sampled_video import SampledVideo
from videoloader.sampling.screen_time import screen_time


@dataclass(frozen=True)
class AtRate:
    """One clip of ``length`` frames at a constant rate: for each output time the frame that is on screen then.

    Output time k is the clip's start and k / fps seconds. A source that is slower shows frames several times, one that
    is faster loses some; clips of all videos span the same time. Times are compared as fractions. One that is at most
    half a millisecond from a whole unit of the file's time base means that unit, since containers round the times of
    frames to their units: Matroska and WebM to milliseconds. So each frame comes once at a source's own rate.

    A frame is on screen from its time (``VideoIndex.clock``) to that of the next; the video's last one as long as its
    frames are on average. Output times beyond the end are padded, as if frames went on at the average rate of the
    range.

    Args:
        fps: output frames a second, as a number or a ``Fraction``. A float is the decimal it prints as, but 23.976,
            29.97, 59.94 and their like mean NTSC's rates (29.97 is 30000/1001): where the float is one of these rates
            rounded to two decimals or more.
        length: frames in a clip.
        start: seconds after the range's first frame (a distance, not a time of the video), or ``"random"``: drawn
            uniformly, in units of the video's timestamps, from the starts with which the clip fits. A video that is
            too short is padded at its end; with ``pad="none"`` it gives no clip. Default: ``"random"``.
        pad: padding mode, or a ``PadColumn``. Default: ``"edge"``.

    Raises:
        ConfigurationError: an argument has no such value.

    Example:
        A source with a hole, ``AtRate(10, 6, start=0)``; frame 2 is on screen from 0.20 to 0.45 s::

            seconds  0.0   0.1   0.2   0.3   0.4   0.5
            frames   0     1     2              3     4
            clip 0   0     1     2     2     2  3
    """

    fps: Time
    length: int
    _: KW_ONLY
    start: Literal["random"] | Time = "random"
    pad: Pad = "edge"

    def __post_init__(self) -> None:
        exact_rate(self.fps)
        check_positive(length=self.length)
        if isinstance(self.start, str):
            if self.start != "random":
                raise ConfigurationError(f"start must be 'random' or a number of seconds, got {self.start!r}")
        else:
            object.__setattr__(self, "start", as_times("start", [self.start])[0])
        check_pad(self.pad)

    def num_clips(self, video: SampledVideo) -> int:
        """1, or 0 where the clip does not fit and nothing may be padded."""
        if pad_of(self.pad, video) != "none" or video.stop == video.first:
            return int(video.stop > video.first)
        start, stop = screen_time(video)
        offset = Fraction(0) if isinstance(self.start, str) else in_units(self.start, video.index.stream.time_base)
        return int(offset >= 0 and start + offset + self._span(video) < stop)

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with so many frames; None where that depends on their timestamps."""
        padded = not isinstance(self.pad, PadColumn) and check_mode(self.pad) != "none"
        return (frames > 0).astype(np.int64) if padded else None

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: from a start that is fixed, or drawn with ``rng``."""
        start, stop = screen_time(video)
        if isinstance(self.start, str):
            starts = ceil(stop - self._span(video)) - start
            begin = Fraction(start + (int(rng.integers(starts)) if starts > 1 else 0))
        else:
            begin = start + in_units(self.start, video.index.stream.time_base)
        step = 1 / exact_rate(self.fps) / video.index.stream.time_base
        # Times as integers over one denominator: fractions would take ten times as long.
        whole = lcm(begin.denominator, step.denominator)
        zero, distance = int(begin * whole), int(step * whole)
        times = [zero + number * distance for number in range(self.length)]
        base = video.index.stream.time_base
        units = (time // whole if (unit := whole_unit(time, whole, base)) is None else unit for time in times)
        frames = last_at_or_before(video.index, units).clip(video.first, video.stop - 1)
        for number, time in enumerate(times):
            if not start * whole <= time < stop * whole:
                frames[number] = _continued(video, Fraction(time, whole), start, stop)
        return frames

    def _span(self, video: SampledVideo) -> Fraction:
        """From the first output time to the last, in units of the video's timestamps."""
        return (self.length - 1) / exact_rate(self.fps) / video.index.stream.time_base


def _continued(video: SampledVideo, time: Fraction, start: int, stop: int) -> int:
    """The frame number at a time outside the range, if frames went on at their average rate."""
    rate = Fraction(video.stop - video.first, stop - start)
    if time < start:
        return video.first + floor((time - start) * rate)
    return video.stop + floor((time - stop) * rate)
