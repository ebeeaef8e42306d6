"""The clock of a video: its frames' times, made to rise where a stream starts anew."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Frames within which a wrong time is made up for: more than any decoder reorders.
_FEW = 16


def rising_clock(pts: npt.NDArray[np.int64], usual: int) -> npt.NDArray[np.int64]:
    """Times in display order that never fall.

    Where times fall and stay behind, the stream starts anew: from there on all are moved up, so that the first comes
    one usual duration after the frame before it. Where they catch up sooner than frames that go on in order would,
    only some of them are wrong: such frames count as shown when the latest before them is.

    Args:
        pts: int64[N], of frames in display order.
        usual: duration of a frame where the times do not tell.

    Returns:
        int64[N]; ``pts`` itself where it never falls.

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
    # Between frames that are out of order the steps are long.
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
    """Whether the frames from ``fall`` on are a start anew, and not a few that come late."""
    # So many frames it takes to show all again that lies between, if none is missing.
    between = (highest - int(pts[fall])) // step + 1
    length = min(between, _FEW)
    if fall + length > len(pts):
        return between > _FEW
    return bool((pts[fall : fall + length] <= highest).all())
