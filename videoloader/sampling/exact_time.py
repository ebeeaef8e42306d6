"""Converts users' times to exact timestamps, finds the frames at them, and tells when frames are on screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from fractions import Fraction
from math import ceil, floor, ulp
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from videoloader.errors.checks import check
from videoloader.indexing.exact_numbers import exact
from videoloader.indexing.index import VideoIndex
from videoloader.sampling.sampled_video import AllFrames, SampledVideo

Time: TypeAlias = int | float | Fraction

_INT64 = np.iinfo(np.int64)
# Seconds: half of the millisecond to which people and most containers round times.
ROUNDING = Fraction(1, 2000)


def as_times(name: str, values: Any) -> tuple[Time, ...]:
    """One or more times as Python numbers, with floats kept as floats; ``in_units`` says what these mean.

    Raises:
        ConfigurationError: the value is anything else.
    """
    is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping | Set)
    is_sparse = str(getattr(values, "layout", "torch.strided")) != "torch.strided"
    check(name, values, is_list and not is_sparse, "a list of seconds")
    given = list(values)
    check(name, values, given, "a list of one or more seconds")
    return tuple(_own_number(name, value) for value in given)


def _own_number(name: str, value: Any) -> Time:
    check(name, value, not isinstance(value, np.timedelta64), 'numbers: divide by np.timedelta64(1, "s") for seconds')
    if hasattr(value, "ndim") and hasattr(value, "tolist") and not value.ndim:  # an array or tensor of one number
        try:
            value = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)[()]
        except TypeError:  # NumPy has no bfloat16
            value = value.tolist()
        except RuntimeError:  # a tensor without data, on the device "meta", or of conjugated numbers
            check(name, value, False, "a list of seconds")
    number = exact(name, value)
    # A float32 is the float64 that prints as it does: 0.12 and not 0.11999999731779099.
    return float(str(value)) if isinstance(value, float | np.floating) else number


def in_units(time: Time, base: Fraction) -> Fraction:
    """A time in units of a time base, exactly.

    A float means a whole number of units if that number of units, converted to seconds, is the same float; so
    ``video.timestamps[n]`` always means frame n, also at 30 frames a second. Otherwise it means the decimal that it
    prints as.

    Examples:
        >>> in_units(0.12, Fraction(1, 25)), in_units(1 / 30, Fraction(1, 30))
        (Fraction(3, 1), Fraction(1, 1))
    """
    units = exact("seconds", time) / base
    if isinstance(time, float):
        for whole in (floor(units), ceil(units)):
            # As in ``VideoIndex.timestamps``: the float next to the exact value.
            if whole * base.numerator / base.denominator == time:
                return Fraction(whole)
    return units


def on_clock(index: VideoIndex, time: Time) -> Fraction:
    """The value of ``VideoIndex.clock`` at a time in seconds on the index's scale; see ``in_units``.

    Containers round the times of frames to their units, and floats are rounded, too: 2 / 30 s is 66.67 units of a
    millisecond, and its frame has 67. So a time means the nearest whole unit if that is at most half a millisecond
    away. All other times stay exact.
    """
    if isinstance(time, float) and ulp(time) > index.stream.time_base:
        # Several units are the same float, as for nanoseconds since 1970. If one of them is a frame's, it is meant.
        frame = int(np.searchsorted(index.timestamps, time))
        if frame < len(index) and index.timestamps[frame] == time:
            return Fraction(int(index.clock[frame]))
    units = in_units(time, index.stream.time_base) + index.zero
    nearest = whole_unit(units.numerator, units.denominator, index.stream.time_base)
    return units if nearest is None else Fraction(nearest)


def whole_unit(numerator: int, denominator: int, time_base: Fraction) -> int | None:
    """The whole unit that a number of units means by the rule of ``on_clock``; None where the number stays exact.

    Args:
        numerator, denominator: the number of units as two integers, since fractions take ten times as long.
        time_base: seconds of a unit.
    """
    nearest = (2 * numerator + denominator) // (2 * denominator)
    away = abs(numerator - nearest * denominator) * time_base.numerator
    return nearest if away * ROUNDING.denominator <= denominator * time_base.denominator else None


def last_at_or_before(index: VideoIndex, units: Iterable[int]) -> npt.NDArray[np.int64]:
    """int64[T]: for each time, the last frame whose time on the video's clock is not after it; -1 before the first."""
    return np.searchsorted(index.clock, _clipped(units), "right").astype(np.int64) - 1


def first_at_or_after(index: VideoIndex, units: Iterable[int]) -> npt.NDArray[np.int64]:
    """int64[T]: for each time, the first frame that is not before it on the clock; ``len(index)`` after the last."""
    return np.searchsorted(index.clock, _clipped(units), "left").astype(np.int64)


def _clipped(units: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array([min(max(unit, _INT64.min), _INT64.max) for unit in units], np.int64)


def screen_time(video: SampledVideo) -> tuple[int, int]:
    """The times at which the range's first frame appears and its last one disappears, in units of the clock."""
    index = video.index
    pts = index.clock
    start = int(pts[video.first])
    if video.stop < len(index):
        return start, max(int(pts[video.stop]), start + 1)
    if len(index) > 1:
        shown = round(Fraction(int(pts[-1] - pts[0]), len(index) - 1))
    else:
        rate = index.stream.frame_rate
        shown = round(1 / rate / index.stream.time_base) if rate else 1
    return start, int(pts[-1]) + max(shown, 1)


def exact_span(video: SampledVideo) -> tuple[Fraction, Fraction]:
    """``screen_time`` before containers rounded the times of frames, where that is known."""
    if even := video.index.even_times:
        first, step = even
        return first + video.first * step, first + video.stop * step
    start, stop = screen_time(video)
    return Fraction(start), Fraction(stop)


def before_rounding(index: VideoIndex, units: Fraction) -> Fraction:
    """The time that a container has rounded to that of a frame, or of the end of all; others stay as they are."""
    even = index.even_times
    if even is None or units.denominator != 1:
        return units
    first, step = even
    frame = int(np.searchsorted(index.clock, units.numerator))
    if frame < len(index) and index.clock[frame] == units.numerator:
        return first + frame * step
    return first + len(index) * step if units >= screen_time(AllFrames(index))[1] else units


def told_span(video: SampledVideo) -> str:
    """The range's time on screen, for messages: ``0–2.4 s (pts 1.4–3.8)``, with pts added where they differ."""
    index = video.index
    begin, end = screen_time(video)
    zeros = [index.with_times(times).zero for times in ("start", "pts")]
    start, pts = [f"{_in_seconds(index, begin - zero)}–{_in_seconds(index, end - zero)}" for zero in zeros]
    if start == pts:
        return f"{start} s"
    return f"{start} s (pts {pts})" if index.times == "start" else f"{pts} s of pts ({start} s from the file's start)"


def _in_seconds(index: VideoIndex, units: int) -> str:
    return f"{float(units * index.stream.time_base):.3f}".rstrip("0").rstrip(".")
