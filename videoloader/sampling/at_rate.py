"""The frame mode that turns any frame rate, constant or not, into a constant one."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Literal

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError
from videoloader.indexing.exact_numbers import exact, exact_rate
from videoloader.padding import check_mode
from videoloader.sampling.checked_fields import CheckedFields
from videoloader.sampling.columns import Pad, PadColumn, pad_of
from videoloader.sampling.exact_time import Time, as_times, in_units, last_at_or_before, whole_unit
from videoloader.sampling.placements import even_start
from videoloader.sampling.sampled_video import SampledVideo
from videoloader.sampling.saved_repr import SavedRepr
from videoloader.sampling.screen_time import screen_time


@dataclass(frozen=True, repr=False)
class AtRate(SavedRepr, CheckedFields):
    """Clips of ``length`` frames at a constant rate: each output time shows the frame that is on screen then.

    Output time k is the clip's start plus k / fps seconds. A slower source shows frames several times, a faster one
    loses some, and clips of all videos span the same time. Times are compared as fractions. A time that is at most half
    a millisecond from a whole unit of the file's time base means that unit, since containers round the times of frames
    to their units: Matroska and WebM to milliseconds. So each frame comes once at a source's own rate.

    A frame is on screen from its time (``VideoIndex.clock``) to that of the next; the video's last one stays as long as
    its frames do on average. Output times beyond the end are padded, as if frames went on at the average rate of the
    range.

    Args:
        fps: int, float or ``Fraction``. The output frames a second. A float is the decimal that it prints as, but
            NTSC's rates, rounded to two decimals or more, mean the exact rates: 29.97 is 30000/1001, and 23.976, 59.94
            and their like are read the same way.
        length: int. The number of frames in a clip.
        start: str or seconds, default ``"random"``. ``"random"`` draws each clip's start uniformly, in units of the
            video's timestamps, from those with which the clip fits. ``"even"`` spreads the clips evenly, as
            ``EvenWindows`` does: the first begins with the range, the last ends with it, and a single one lies in the
            middle. Seconds are a distance from the range's first frame (not a time of the video). A video that is too
            short is padded at its end; with ``pad="none"`` it gives no clip.
        pad: str or ``PadColumn``, default ``"edge"``. The padding mode.
        clips: int, default one clip. The number of clips of each video, with ``start="random"`` (independent draws) or
            ``"even"``.
        step: seconds, default one clip. The distance between the starts of neighbouring clips, from a ``start`` in
            seconds to the end of the range. With padding, clips at the end may reach beyond it; without, only those
            that fit count.

    Raises:
        ConfigurationError: an argument has a value that is not listed here.

    Examples:
        A source with a hole, ``AtRate(10, 6, start=0)``; frame 2 is on screen from 0.20 to 0.45 s:

            seconds  0.0   0.1   0.2   0.3   0.4   0.5
            frames   0     1     2              3     4
            clip 0   0     1     2     2     2  3

        Ten views of 2 s for a test: ``AtRate(8, 16, start="even", clips=10)``. Every 2 s of a video without a rest:
        ``AtRate(8, 16, start=0, step=2)``.
    """

    fps: Time
    length: int
    _: KW_ONLY
    start: Literal["random", "even"] | Time = "random"
    pad: Pad = "edge"
    clips: int | None = field(default=None, repr=False)
    step: Time | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        exact_rate(self.fps)
        start, step = self.start, self.step
        drawn = isinstance(start, str)
        if drawn and start not in ("random", "even"):
            raise ConfigurationError(f"start must be 'random', 'even' or a number of seconds, got {start!r}")
        if not drawn:
            object.__setattr__(self, "start", as_times("start", [start])[0])
        if self.clips is not None and not drawn:
            raise ConfigurationError(
                f"clips={self.clips} needs start='random' or 'even', got start={start!r}: for clips at equal distances "
                "from a start write step=, in seconds"
            )
        if step is not None:
            object.__setattr__(self, "step", as_times("step", [step])[0])
            if exact("step", step) <= 0:
                raise ConfigurationError(f"step must be a positive number of seconds, got {step!r}")
            if drawn or exact("start", start) < 0:
                raise ConfigurationError(f"step needs a start of 0 s or more, got start={start!r}: write start=0")

    def num_clips(self, video: SampledVideo) -> int:
        """The number of clips asked for; none where nothing fits and nothing may be padded."""
        if video.stop == video.first:
            return 0
        padded = pad_of(self.pad, video) != "none"
        start, stop = screen_time(video)
        # The first clip lies before this: its own start with padding, its last output time without.
        room = stop - start - self._offset(video, 0) - (0 if padded else self._span(video))
        if self.step is not None:
            return max(ceil(room / in_units(self.step, video.index.stream.time_base)), 0)
        fits = padded or (room > 0 and self._offset(video, 0) >= 0)
        return (self.clips or 1) if fits else 0

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with these numbers of frames; None where timestamps decide."""
        padded = not isinstance(self.pad, PadColumn) and check_mode(self.pad) != "none"
        return np.int64(self.clips or 1) * (frames > 0) if padded and self.step is None else None

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: from a start that is fixed, or drawn with ``rng``."""
        start, stop = screen_time(video)
        if isinstance(self.start, str):
            # The last of the starts with which the clip fits, from the range's own.
            last = max(ceil(stop - self._span(video)) - start - 1, 0)
            if self.start == "random":
                offset = int(rng.integers(last + 1)) if last else 0
            else:
                offset = even_start(clip, self.clips or 1, last)
            begin = Fraction(start + offset)
        else:
            begin = start + self._offset(video, clip)
        base = video.index.stream.time_base
        step = 1 / exact_rate(self.fps) / base
        # Times as integers over one denominator: fractions would take ten times as long.
        whole = lcm(begin.denominator, step.denominator)
        zero, distance = int(begin * whole), int(step * whole)
        # Each takes some hundred bytes below. The system refuses at once what it has not; of integers, only in the end.
        np.empty((self.length, 16), np.int64)
        times = [zero + number * distance for number in range(self.length)]
        units = (time // whole if (unit := whole_unit(time, whole, base)) is None else unit for time in times)
        frames = last_at_or_before(video.index, units).clip(video.first, video.stop - 1)
        for number, time in enumerate(times):
            if not start * whole <= time < stop * whole:
                frames[number] = _continued(video, Fraction(time, whole), start, stop)
        return frames

    def _offset(self, video: SampledVideo, clip: int) -> Fraction:
        """Units from the range's start to a clip's that is fixed in seconds; of others 0, the least."""
        if isinstance(self.start, str):
            return Fraction(0)
        base = video.index.stream.time_base
        return in_units(self.start, base) + (clip * in_units(self.step, base) if self.step is not None else 0)

    def _span(self, video: SampledVideo) -> Fraction:
        """Units of the video's timestamps from the first output time to the last."""
        return (self.length - 1) / exact_rate(self.fps) / video.index.stream.time_base


def _continued(video: SampledVideo, time: Fraction, start: int, stop: int) -> int:
    """The frame number at a time outside the range, if frames went on at their average rate."""
    rate = Fraction(video.stop - video.first, stop - start)
    if time < start:
        return video.first + floor((time - start) * rate)
    return video.stop + floor((time - stop) * rate)
