"""Compute a clock for a video: its frames' times, made to rise where the stream starts anew."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# A wrong time is recovered from within this many frames, more than any decoder reorders.
_FEW = 16


def rising_clock(pts: npt.NDArray[np.int64], usual: int) -> npt.NDArray[np.int64]:
    """Make times in display order never fall.

    Where times fall and stay behind, the stream starts anew: all times from there on are moved up, so that the first
    comes one usual duration after the frame before it. Where they catch up sooner than consecutive frames would, only
    some times are wrong: such frames get the latest time before them.

    Args:
        pts: int64[N], times of frames in display order.
        usual: duration of a frame to assume if the times do not tell.

    Returns:
        int64[N]; ``pts`` itself if it never falls.

    Examples:
        >>> rising_clock(np.array([4, 6, 8, 0, 2, 6, 4, 8, 10, 12]), 2).tolist()
        [4, 6, 8, 10, 12, 16, 16, 18, 20, 22]
    """
    steps = np.diff(pts)
    falls = np.flatnonzero(steps < 0) + 1
    if not len(falls):
        return pts
    rises = steps[steps > 0]
    usual = int(np.median(rises)) if len(rises) else max(usual, 1)
    # Frames that are out of order are separated by longer steps.
    shortest = min(usual, int(np.median(np.diff(np.unique(pts)))))
    starts = [0]
    highest, seen = int(pts[0]), 0
    for fall in falls.tolist():
        highest, seen = max(highest, int(pts[seen:fall].max())), fall
        if _stays_behind(pts, fall, highest, max(shortest, 1)):
            starts.append(fall)
            highest = int(pts[fall])
    clock = pts.copy()
    for start, stop in zip(starts, [*starts[1:], len(pts)], strict=True):
        np.maximum.accumulate(pts[start:stop], out=clock[start:stop])
        if start:
            clock[start:stop] += clock[start - 1] + usual - pts[start]
    return clock


def _stays_behind(pts: npt.NDArray[np.int64], fall: int, highest: int, step: int) -> bool:
    """Whether the frames from ``fall`` on are a new start, and not a few frames with late times."""
    # The number of frames it takes to cover the time in between again, if none is missing.
    between = (highest - int(pts[fall])) // step + 1
    few = pts[fall : fall + min(between, _FEW)]
    # At the end of a video, fewer frames than that may catch up later.
    return (len(few) == between or between > _FEW) and bool((few <= highest).all())
