"""Edit lists (ISO/IEC 14496-12, 8.6.6): from media time to what a player shows, and when.

A track's edit list says which spans of the media are shown, in which order, with gaps ("empty
edits") before them. Samples outside all spans are decoded where others depend on them, never shown.
Where the standard leaves a choice, this follows libavformat, whose full decode is our truth: the
first shown frame lies at zero, or after the leading gap; a span begins at the last keyframe whose
presentation time is not after the span's start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.mp4.boxes import Box
from videoloader.indexing.mp4.samples import Samples

EMPTY = -1
# A long list of long spans is a small file's way to ask for more memory than there is.
_MOST_FRAMES = 1 << 22


class Edit(NamedTuple):
    """One entry of an edit list, in media time units; ``media_time`` EMPTY is a gap."""

    media_time: int
    duration: int


def read_edits(data: bytes, elst: Box, media_scale: int, movie_scale: int) -> list[Edit]:
    """The entries of an ``elst`` box; durations are converted from the movie's to the media's time scale."""
    if movie_scale <= 0:
        return []
    wide = data[elst.start] == 1
    row = np.dtype([("duration", ">u8" if wide else ">u4"), ("time", ">i8" if wide else ">i4"), ("rate", ">i4")])
    # As many entries as there are bytes: the stated count is wrong in some files.
    count = max(elst.stop - elst.start - 8, 0) // row.itemsize
    table = np.frombuffer(data, row, count, elst.start + 8)
    return [
        # Rounded to nearest, halves up, as av_rescale does.
        Edit(time, (duration * media_scale + movie_scale // 2) // movie_scale)
        for duration, time, _ in table.tolist()
    ]


def leading_offset(edits: list[Edit]) -> int:
    """What a fragmented track's list takes off its times: the first span's start less the gap before it.

    In fragmented files the spans cannot be cut out beforehand, so players use the list only for its offset.
    """
    gap = edits[0].duration if edits and edits[0].media_time == EMPTY else 0
    spans = edits[1:] if gap else edits
    start = spans[0].media_time if spans and spans[0].media_time >= 0 else 0
    return start - gap


def shown_frames(samples: Samples, edits: list[Edit]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which samples are shown and when.

    Args:
        samples: of the track, decode order.
        edits: the edit list; empty when the track has none.

    Returns:
        (samples int64[N], pts int64[N]), in display order; a sample stands twice where two edits show it.

    Raises:
        ValueError: the list shows more frames than any video has.
    """
    pts = samples.dts + samples.composition
    if not edits or not len(pts):
        shown = np.flatnonzero(~samples.discarded)
        return _in_display_order(shown, pts[shown])
    key = np.flatnonzero(samples.key)
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    clock, gap, first_span, frames = 0, 0, True, 0
    for media_time, duration in edits:
        start_clock = clock
        clock += duration
        if media_time == EMPTY:
            gap += duration if first_span else 0
            continue
        first_span = False
        begin = _span_start(samples, pts, key, media_time)
        in_span = begin + np.flatnonzero((pts[begin:] >= media_time) & (pts[begin:] < media_time + duration))
        if not len(in_span):
            continue
        frames += len(in_span)
        if frames > max(_MOST_FRAMES, len(pts)):
            raise ValueError(f"the edit list shows more than {_MOST_FRAMES} frames")
        # The span's first sample in decode order starts the span's decode clock.
        shown_pts = start_clock + samples.dts[in_span] - samples.dts[in_span[0]] + samples.composition[in_span]
        parts.append((in_span, shown_pts))
    if not parts:
        none = np.empty(0, np.int64)
        return none, none
    # A composition delay must not look like a late start: without a gap the first frame lies at zero. Times before
    # zero come from negative composition offsets; libavformat's minimum forgets all up to the last of them.
    times = np.concatenate([times for _, times in parts])
    times = times[np.flatnonzero(np.append(-1, times) < 0)[-1] :]
    delay = max(int(times.min(initial=2**62)) - gap, 0) if len(times) else 0
    parts = [_in_display_order(*part) for part in parts]
    shown = np.concatenate([part[0] for part in parts])
    shown_at = np.concatenate([part[1] for part in parts]) - delay
    kept = ~samples.discarded[shown]
    # Spans are shown one after another, even where reordering makes libavformat start one before the last one's end.
    return shown[kept], np.maximum.accumulate(shown_at[kept])


def _span_start(samples: Samples, pts: npt.NDArray[np.int64], key: npt.NDArray[np.int64], media_time: int) -> int:
    """The sample a span is decoded from: the last keyframe presented, and decoded, at or before its start."""
    fits = key[(pts[key] <= media_time) & (samples.dts[key] <= media_time)]
    return int(fits[-1]) if len(fits) else 0


def _in_display_order(
    shown: npt.NDArray[np.int64], pts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    order = np.argsort(pts, kind="stable")
    return shown[order], pts[order]
