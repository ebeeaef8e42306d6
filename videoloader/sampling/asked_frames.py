"""Turns the frame numbers or times that a user asks of one video into frames, and refuses what names none."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

from videoloader.errors import ArgumentError, ConfigurationError, FrameRangeError
from videoloader.errors.checks import shortened
from videoloader.indexing.exact_numbers import exact_rate
from videoloader.indexing.index import VideoIndex
from videoloader.sampling.at_rate import AtRate
from videoloader.sampling.exact_time import (
    ROUNDING,
    Time,
    as_times,
    before_rounding,
    first_at_or_after,
    in_units,
    last_at_or_before,
    on_clock,
    screen_time,
    told_span,
)
from videoloader.sampling.frame_list import FrameList
from videoloader.sampling.integers import positions_in
from videoloader.sampling.mode import FrameMode
from videoloader.sampling.sampled_video import AllFrames

# The most frames of one clip. The numbers of more would fill any memory by themselves.
_MOST_FRAMES = 1 << 24


def asked_frames(asked: Any, count: int, source: str) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the frames that ``video[asked]`` means.

    Args:
        asked: an integer, a slice, or a list, array or tensor of integers or of a bool for each frame; negative
            integers count from the end.
        count: number of frames of the video.
        source: name of the video, for messages.

    Returns:
        int64[T], and whether ``asked`` was a single integer.

    Raises:
        ArgumentError: ``asked`` is anything else.
        FrameRangeError: a frame number lies outside the video, or the number of bools is not the number of frames.

    Examples:
        >>> asked_frames([0, -1], 60, "clip.mp4"), asked_frames(7, 60, "clip.mp4")
        ((array([ 0, 59]), False), (array([7]), True))
    """
    try:
        found = positions_in(asked, count, "frame", "the video")
    except IndexError as error:
        raise FrameRangeError(str(error), source) from None
    if found is None:
        raise ArgumentError(
            "the index of a video must be an integer, a slice, or a list, 1-D array or 1-D tensor of integers or a "
            f"bool for each frame, got {shortened(asked)}"
        )
    return found


def frame_on_screen(index: VideoIndex, seconds: Time) -> int:
    """The last frame whose time is not after ``seconds``.

    Raises:
        ConfigurationError: the time is not a finite number.
        FrameRangeError: no frame is on screen then.

    Examples:
        >>> frame_on_screen(index, 1.5)
        37
    """
    (time,) = as_times("seconds", [seconds])
    return int(last_at_or_before(index, [floor(_units_on_screen(index, time, f"{seconds} s"))])[0])


def frames_between(index: VideoIndex, start: Time, stop: Time, fps: Time | None = None) -> FrameMode:
    """The mode that chooses the frames whose times lie in ``[start, stop)``, or ``fps`` frames a second from that span.

    Raises:
        ConfigurationError: a time is not a finite number, ``stop`` is not after ``start``, or ``fps`` is not a rate.
        FrameRangeError: the times reach beyond the video, or no frame's time lies between them.

    Examples:
        >>> frames_between(index, 2.0, 4.0, fps=8)
        AtRate(fps=8, length=16, start=Fraction(2, 1), pad='edge')
    """
    asked = f"{start}–{stop} s"
    (begins,), (ends,) = as_times("start", [start]), as_times("stop", [stop])
    # Sound may begin before the first frame.
    begin = _units_on_screen(index, begins, asked, earliest=index.with_times("start").zero)
    end = _units_on_screen(index, ends, asked, is_end=True)
    if begin >= end:
        raise ConfigurationError(f"stop must be after start, got start={start!r}, stop={stop!r}")
    if fps is not None:
        base, zero = index.stream.time_base, before_rounding(index, Fraction(int(index.clock[0])))
        begin, end = _unrounded(index, begins, begin), _unrounded(index, ends, end)
        # An output time that means the same unit as the stop is not before it.
        step = 1 / exact_rate(fps) / base
        length = max(ceil((end - begin - min(Fraction(1, 2), ROUNDING / base, step / 2)) / step), 1)
        if length > _MOST_FRAMES:
            raise ConfigurationError(f"fps={fps} gives {length} frames of {asked}, more than {_MOST_FRAMES}")
        return AtRate(fps, length, start=(begin - zero) * base)
    first, after = first_at_or_after(index, [ceil(begin), ceil(end)]).tolist()
    if first == after:
        raise FrameRangeError(f"no frame's time lies in [{start}, {stop}) s: take a longer span, or fps=", index.source)
    return FrameList(range(first, after))


def _unrounded(index: VideoIndex, seconds: Time, units: Fraction) -> Fraction:
    """A time before it is rounded to these units, and before a container rounds it if it is that of a frame."""
    exact = in_units(seconds, index.stream.time_base) + index.zero
    # If they are further apart, several units are the same float, or the time is beyond the end.
    return before_rounding(index, exact if abs(exact - units) <= Fraction(1, 2) else units)


def _units_on_screen(
    index: VideoIndex, seconds: Time, asked: str, *, earliest: int | None = None, is_end: bool = False
) -> Fraction:
    """Seconds in units of the clock: a time at which a frame is on screen, or one from ``earliest`` on.

    An end may also be the very end of the video, or that end rounded to a float.
    """
    units = on_clock(index, seconds)
    first, stop = screen_time(AllFrames(index))
    slack = min(ROUNDING / index.stream.time_base, Fraction(1))
    if min(first, first if earliest is None else earliest) <= units < stop or (
        is_end and stop <= units <= stop + slack
    ):
        return min(units, Fraction(stop))
    beyond = ": its first frame comes later" if units < first else ": its end shows no frame" if units == stop else ""
    raise FrameRangeError(f"asked for {asked}, but the video lasts {told_span(AllFrames(index))}{beyond}", index.source)
