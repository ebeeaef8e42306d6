"""Which frames of its video an entry means."""

from __future__ import annotations

import numpy as np

from videoloader.dataset.entry import VideoEntry
from videoloader.errors import FrameRangeError
from videoloader.indexing import VideoIndex


def entry_range(entry: VideoEntry, index: VideoIndex) -> tuple[int, int]:
    """The frames ``[first, stop)`` of a video that an entry means.

    Seconds choose the frames whose times (``VideoIndex.clock``) lie in ``[start_seconds, stop_seconds)``, to half a
    millisecond or half a unit of the video's time base, whichever is less: parts that touch share no frame and lose
    none. Seconds may reach beyond the video; frame numbers may not.

    Raises:
        FrameRangeError: there is no such frame, or a frame number lies outside the video.

    Example:
        At 25 frames a second, ``start_seconds=1, stop_seconds=2`` are the frames ``(25, 50)``.
    """
    first, stop = entry.start, entry.stop
    if entry.start_seconds is not None:
        first = _first_frame_from(entry.start_seconds, index)
    if entry.stop_seconds is not None:
        stop = _first_frame_from(entry.stop_seconds, index)
    return _checked_range(entry, first, stop, len(index), index.source)


def numbered_range(entry: VideoEntry, frames: int) -> tuple[int, int]:
    """The frames ``[first, stop)`` that an entry without seconds means, of a video with so many.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    return _checked_range(entry, entry.start, entry.stop, frames, entry.path)


def _checked_range(entry: VideoEntry, first: int | None, stop: int | None, frames: int, source: str) -> tuple[int, int]:
    first, stop = first or 0, frames if stop is None else stop
    if not first < stop <= frames:
        raise FrameRangeError(f"no frames [{first}, {stop}) among {frames} for {entry}", source)
    return int(first), int(stop)


def _first_frame_from(seconds: float, index: VideoIndex) -> int:
    # Slack, so that a time which was rounded (to a float, to the container's milliseconds) finds its frame.
    base = float(index.stream.time_base)
    return int(np.searchsorted(index.clock, np.ceil((seconds - min(base / 2, 0.0005)) / base)))
