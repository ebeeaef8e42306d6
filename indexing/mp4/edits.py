"""Apply edit lists (ISO/IEC 14496-12, 8.6.6): which samples a player shows, and when.

A track's edit list says which spans of the media are shown, in which order, and with which gaps ("empty edits") before
them. Samples outside all spans are decoded where others depend on them, but never shown. Where the standard leaves a
choice, this follows libavformat, whose full decode is the reference: the first shown frame is at zero, or after the
leading gap, and a span begins at the last keyframe whose presentation time is not after the span's start. If samples
share a decode time, it may be an earlier keyframe. libavformat gives a decoder the packets of one span after those of
another. If a span begins or ends at no true keyframe, only a decode tells what comes out: such spans are detected here,
and resolved in ``spans``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.mp4.boxes import Box
from videoloader.indexing.mp4.samples import Samples

EMPTY = -1
_ROW, _WIDE_ROW = struct.Struct(">Ii4x"), struct.Struct(">Qq4x")  # duration, media time; the rate is not used
_LATEST = (1 << 63) - 1
# With a long list of long spans, a small file could ask for more memory than there is, or, as a span may look at more
# samples than it shows, for more time.
_MOST_FRAMES, _LOOKED_AT = 1 << 22, 16


class Edit(NamedTuple):
    """One entry of an edit list, in media time units. If ``media_time`` is EMPTY, it is a gap."""

    media_time: int
    duration: int


def read_edits(data: bytes, elst: Box, media_scale: int, movie_scale: int) -> list[Edit]:
    """Return the entries of an ``elst`` box, with durations converted from the movie's to the media's time scale."""
    if movie_scale <= 0:
        return []
    row = _WIDE_ROW if data[elst.start] == 1 else _ROW
    # As many entries as fit the bytes, since the stated count is wrong in some files.
    count = max(elst.stop - elst.start - 8, 0) // row.size
    table = data[elst.start + 8 : elst.start + 8 + count * row.size]
    return [
        # Rounded to nearest, halves up, as av_rescale does.
        Edit(time, (duration * media_scale + movie_scale // 2) // movie_scale)
        for duration, time in row.iter_unpack(table)
    ]


class Shown(NamedTuple):
    """The samples that an edit list shows.

    Attributes:
        samples: int64[N], in display order; a sample occurs twice if two edits show it.
        pts: int64[N], when each is shown.
        starts: the sample from which each span is decoded; empty without an edit list.
        uncertain: whether the table of keyframes contradicts the list, so that it is not known what libavformat reads.
    """

    samples: npt.NDArray[np.int64]
    pts: npt.NDArray[np.int64]
    starts: tuple[int, ...] = ()
    uncertain: bool = False


class _Part(NamedTuple):
    """The samples of one span in display order, their media times, and what to add to these."""

    samples: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    shift: int

    def moved(self, further: int) -> npt.NDArray[np.int64]:
        """Return the times at which the samples are shown, without a copy if they do not move."""
        shift = self.shift + further
        return self.times + shift if shift else self.times


def leading_offset(edits: list[Edit]) -> int:
    """Return the time that a fragmented track's edit list subtracts: the first span's start minus the gap before it.

    In fragmented files the spans cannot be known in advance, so players use the list only for its offset.
    """
    gap = edits[0].duration if edits and edits[0].media_time == EMPTY else 0
    spans = edits[1:] if gap else edits
    start = spans[0].media_time if spans and spans[0].media_time >= 0 else 0
    return start - gap


def leading_gap(edits: list[Edit]) -> int:
    """Return the time before the first span, for which nothing is shown."""
    gap = 0
    for edit in edits:
        if edit.media_time != EMPTY:
            break
        gap += edit.duration
    return gap


def shown_frames(
    samples: Samples, pts: npt.NDArray[np.int64], order: npt.NDArray[np.int64], edits: list[Edit]
) -> Shown:
    """Return the samples that are shown, and their times.

    Args:
        samples: samples of the track in decode order; at least one.
        pts: times of the samples.
        order: int64[P], the samples in the order of their pts.
        edits: the edit list; empty if the track has none.

    Returns:
        The samples. Spans are shown one after another, even where libavformat, because of reordering, starts one before
        the end of the last: times fall there.

    Raises:
        ValueError: the list shows more frames than any video has.
    """
    shown = Shown(order, pts[order])
    if edits:
        shown = _shown_in_spans(samples, pts, order, shown.pts, edits)
    if np.count_nonzero(samples.discarded):
        kept = ~samples.discarded[shown.samples]
        shown = shown._replace(samples=shown.samples[kept], pts=shown.pts[kept])
    return shown


def _shown_in_spans(
    samples: Samples,
    pts: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    ordered_pts: npt.NDArray[np.int64],
    edits: list[Edit],
) -> Shown:
    key = samples.key.nonzero()[0]
    stands_still = bool(np.count_nonzero(samples.dts[1:] == samples.dts[:-1]))
    # A span is decoded from the last keyframe that is both decoded and presented at its start. This is when each
    # keyframe, or one after it, is.
    ready = np.minimum.accumulate(np.maximum(pts[key], samples.dts[key])[::-1])[::-1]
    key_ends: npt.NDArray[np.int64] | None = None
    parts: list[_Part] = []
    starts: list[int] = []
    clock, frames, looked_at, uncertain = 0, 0, 0, False
    most_frames = max(_MOST_FRAMES, len(pts))
    earliest, latest = ordered_pts.item(0), ordered_pts.item(-1)
    for media_time, duration in edits:
        start_clock = clock
        clock += duration
        if media_time == EMPTY:
            continue
        first, stop, end = 0, len(order), min(media_time + duration, _LATEST)
        if media_time > earliest:
            first = int(ordered_pts.searchsorted(media_time))
        if end <= latest:
            stop = int(ordered_pts.searchsorted(end))
        in_span, times = order[first:stop], ordered_pts[first:stop]
        fits = int(ready.searchsorted(media_time, "right"))
        found = int(key[fits - 1]) if fits else None
        if stands_still:
            found = _start_among_equals(samples.dts, pts, key, media_time)
            looked_at += len(key)
        start = found or 0
        starts.append(start)
        if start:
            decoded = in_span >= start
            in_span, times = in_span[decoded], times[decoded]
        uncertain |= found is None and not samples.key[0]
        looked_at += stop - first
        if len(in_span) and len(key) > 1:
            # Whether the span's last sample in decode order comes after the second keyframe at its end. libavformat
            # reads no further than that. After a true keyframe, nothing is shown before the previous one.
            if key_ends is None:
                after = np.minimum(key + 1, len(pts) - 1)
                key_ends = pts[key] + samples.dts[after] - samples.dts[key]
            between = key_ends[slice(*key.searchsorted((start, int(in_span.max()))))]
            uncertain |= bool(np.count_nonzero(between >= media_time + duration) > 1)
            looked_at += len(between)
        frames += len(in_span)
        if frames > most_frames or looked_at > _LOOKED_AT * most_frames:
            raise ValueError(f"the edit list shows more than {most_frames} frames")
        if not len(in_span):
            continue
        # The span's first sample in decode order starts the span's decode clock.
        parts.append(_Part(in_span, times, start_clock - int(samples.dts[in_span[in_span.argmin()]])))
    if not parts:
        none = np.empty(0, np.int64)
        return Shown(none, none, tuple(starts), uncertain)
    # A composition delay must not look like a late start: without a gap, the first frame is at zero.
    late = max(_earliest(parts) - leading_gap(edits), 0)
    shown, shown_at = parts[0].samples, parts[0].moved(-late)
    if len(parts) > 1:
        shown = np.concatenate([part.samples for part in parts])
        shown_at = np.concatenate([part.moved(-late) for part in parts])
    return Shown(shown, shown_at, tuple(starts), uncertain)


def _start_among_equals(
    dts: npt.NDArray[np.int64], pts: npt.NDArray[np.int64], key: npt.NDArray[np.int64], media_time: int
) -> int | None:
    """Return the keyframe from which libavformat decodes a span, where several samples may have one decode time.

    It bisects the decode times, and stops at the first sample that has the wanted one. From there it goes back to a
    keyframe, on to the first keyframe of the same decode time, and then to one that is shown in time. If there is none,
    it tries once more, from the first sample that has the decode time it stopped at. None if that finds none either.
    """
    found = _bisect(dts, media_time)
    known = key[: key.searchsorted(found, "right")]
    if not len(known):
        return None
    fitting = known[pts[known] <= media_time]
    first_key = known[known.searchsorted(dts.searchsorted(dts[known[-1]]))]
    for latest in (first_key, dts.searchsorted(dts[found])):
        if fits := int(fitting.searchsorted(latest, "right")):
            return int(fitting[fits - 1])
    return None


def _bisect(times: npt.NDArray[np.int64], wanted: int) -> int:
    """Return the last place at which a time is not after the wanted one, or of several such with that time, any one.

    Which one it is decides where libavformat starts, so this takes the same steps.
    """
    before, behind = -1, len(times)
    if times[-1] < wanted:
        return behind - 1
    while behind - before > 1:
        middle = (before + behind) // 2
        if times[middle] == wanted:
            return middle
        if times[middle] > wanted:
            behind = middle
        else:
            before = middle
    return before


def _earliest(parts: list[_Part]) -> int:
    """Return the time of the first frame as libavformat counts it.

    Times before zero come from negative composition offsets. libavformat's minimum forgets everything up to the last of
    them.
    """
    earliest = min(int(part.times[0]) + part.shift for part in parts)
    if earliest >= 0:
        return earliest
    decoded = np.concatenate([part.moved(0)[np.argsort(part.samples)] for part in parts])
    later = decoded[np.flatnonzero(decoded < 0)[-1] + 1 :]
    return int(later.min()) if len(later) else 0
