"""The frame mode that turns any frame rate, constant or not, into a constant one."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from math import ceil, floor, lcm
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check
from videoloader.indexing.exact_numbers import exact, exact_rate
from videoloader.padding import check_mode
from videoloader.sampling.columns import Pad, PadColumn, pad_of
from videoloader.sampling.exact_time import Time, as_times, exact_span, in_units, last_at_or_before, whole_unit
from videoloader.sampling.mode_bases import CheckedFields, SavedRepr
from videoloader.sampling.placements import even_start
from videoloader.sampling.sampled_video import SampledVideo

# How much earlier than its frame a time may be, in units, if the frames' times are rounded to units.
_ROUNDED = Fraction(1, 2)


@dataclass(frozen=True, repr=False)
class AtRate(SavedRepr, CheckedFields):
    """Clips of ``length`` frames at a constant rate: each output time shows the frame that is on screen then.

    Output time k is the clip's start plus k / fps seconds. Frames of a slower source repeat, some frames of a faster
    source are skipped, and clips of all videos span the same time. Times are compared as fractions. Containers round
    the times of frames to units of their time base, Matroska and WebM to milliseconds. So a time at most half a
    millisecond from a whole unit means that unit. If the frames are spaced evenly, their times before the rounding
    count, so at a source's own rate each frame comes exactly once, wherever a clip begins.

    A frame is on screen from its time (``VideoIndex.clock``) to that of the next; the video's last one stays as long as
    its frames do on average. Output times beyond the end are padded, as if frames continued at the average rate of the
    range. A clip of padding alone gives a warning.

    Args:
        fps: int, float or ``Fraction``. The output frames a second. A float means the decimal that it prints as, except
            that NTSC rates rounded to two decimals or more mean the exact rates: 29.97 is 30000/1001, and likewise
            23.976, 59.94 and so on.
        length: int. The number of frames in a clip.
        start: str or seconds, default ``"random"``. ``"random"`` draws each clip's start uniformly, in units of the
            video's timestamps, from the starts at which the clip fits. ``"even"`` spreads the clips evenly, as
            ``EvenWindows`` does: the first begins with the range, the last ends with it, and a single clip is centred.
            Seconds count from the range's first frame (not from the start of the video). A video that is too short is
            padded at its end; with ``pad="none"`` it has no clips.
        pad: str or ``PadColumn``, default ``"edge"``. The padding mode.
        clips: int, default one clip. The number of clips from each video, with ``start="random"`` (independent draws)
            or ``"even"``.
        step: seconds, default one clip. The distance between the starts of neighbouring clips, which follow one another
            from a ``start`` in seconds to the end of the range. With padding, clips at the end may reach beyond it;
            without padding, only clips that fit are made.

    Raises:
        ConfigurationError: an argument has a value that is not listed here.

    Examples:
        A source with a gap, ``AtRate(10, 6, start=0)``; frame 2 is on screen from 0.20 to 0.45 s:

            seconds  0.0   0.1   0.2   0.3   0.4   0.5
            frames   0     1     2              3     4
            clip 0   0     1     2     2     2  3

        Ten test views of 2 s: ``AtRate(8, 16, start="even", clips=10)``. Consecutive clips of 2 s that cover the video:
        ``AtRate(8, 16, start=0, step=2)``.
    """

    in_seconds: ClassVar[bool] = True

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
        check("start", start, not drawn or start in ("random", "even"), "'random', 'even' or a number of seconds")
        if not drawn:
            object.__setattr__(self, "start", as_times("start", [start])[0])
        if self.clips is not None and not drawn:
            raise ConfigurationError(
                f"clips={self.clips} needs start='random' or 'even', got start={start!r}: for clips at equal distances "
                "from a start write step=, in seconds"
            )
        if step is not None:
            object.__setattr__(self, "step", as_times("step", [step])[0])
            check("step", step, exact("step", step) > 0, "a positive number of seconds")
            if drawn or exact("start", start) < 0:
                raise ConfigurationError(f"step needs a start of 0 s or more, got start={start!r}: write start=0")

    def num_clips(self, video: SampledVideo) -> int:
        """The number of clips; 0 where none fits and padding is ``"none"``."""
        if video.stop == video.first:
            return 0
        padded = pad_of(self.pad, video) != "none"
        start, stop = exact_span(video)
        # The first clip must come before this: its start with padding, its last output time without padding.
        room = stop - start - self._offset(video, 0) - (0 if padded else self._span(video))
        if self.step is not None:
            return max(ceil(room / in_units(self.step, video.index.stream.time_base)), 0)
        fits = padded or (room > 0 and self._offset(video, 0) >= 0)
        return (self.clips or 1) if fits else 0

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with these numbers of frames; None where it depends on timestamps."""
        padded = not isinstance(self.pad, PadColumn) and check_mode(self.pad) != "none"
        return np.int64(self.clips or 1) * (frames > 0) if padded and self.step is None else None

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length], from a start that is fixed or drawn with ``rng``.

        Raises:
            ConfigurationError: an output time is so far from the range that 64 bits hold no number of its frame.
        """
        start, stop = exact_span(video)
        even = video.index.even_times
        if isinstance(self.start, str):
            # The last start at which the clip fits, counted from the start of the range.
            last = max(ceil(stop - self._span(video) - start - (_ROUNDED if even else 0)) - 1, 0)
            if self.start == "random":
                offset = int(rng.integers(last + 1)) if last else 0
            else:
                offset = even_start(clip, self.clips or 1, last)
            begin = start + offset
        else:
            begin = start + self._offset(video, clip)
        try:
            return self._shown_from(video, begin, start, stop)
        except OverflowError:
            told = "start counts seconds from the range's first frame, fps frames a second"
            raise ConfigurationError(
                f"{self} asks for times that no video reaches: {told}", video.index.source
            ) from None

    def _shown_from(
        self, video: SampledVideo, begin: Fraction, start: Fraction, stop: Fraction
    ) -> npt.NDArray[np.int64]:
        """int64[length]: the frames of the clip that begins then, in a range from ``start`` to ``stop``."""
        even, base = video.index.even_times, video.index.stream.time_base
        step = 1 / exact_rate(self.fps) / base
        # Times are integers over one denominator: fractions would take ten times as long.
        whole = lcm(*(each.denominator for each in (begin, step, start, stop, _ROUNDED, *(even or ()))))
        zero, distance = int(begin * whole), int(step * whole)
        # Each time takes about a hundred bytes below. One large allocation fails at once where memory is short; a list
        # of integers would fail only after filling it.
        np.empty((self.length, 16), np.int64)
        times = [zero + number * distance for number in range(self.length)]
        if even:
            first, apart = int((even[0] - _ROUNDED) * whole), int(even[1] * whole)
            frames = np.array([(time - first) // apart for time in times], np.int64)
        else:
            units = (time // whole if (unit := whole_unit(time, whole, base)) is None else unit for time in times)
            frames = last_at_or_before(video.index, units)
        frames = frames.clip(video.first, video.stop - 1)
        begins, ends = int(start * whole), int(stop * whole)
        for number, time in enumerate(times):
            if not begins <= time < ends:
                frames[number] = _continued(video, Fraction(time, whole), start, stop)
        return frames

    def _offset(self, video: SampledVideo, clip: int) -> Fraction:
        """Units from the range's start to a clip start that is fixed in seconds; 0, the least, for other clips."""
        if isinstance(self.start, str):
            return Fraction(0)
        base = video.index.stream.time_base
        return in_units(self.start, base) + (clip * in_units(self.step, base) if self.step is not None else 0)

    def _span(self, video: SampledVideo) -> Fraction:
        """Units of the video's timestamps from the first output time to the last."""
        return (self.length - 1) / exact_rate(self.fps) / video.index.stream.time_base


def _continued(video: SampledVideo, time: Fraction, start: Fraction, stop: Fraction) -> int:
    """The frame number at a time outside the range, as if frames continued at their average rate."""
    rate = Fraction(video.stop - video.first, stop - start)
    if time < start:
        return video.first + floor((time - start) * rate)
    return video.stop + floor((time - stop) * rate)
