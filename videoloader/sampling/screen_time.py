"""The times at which the frames of a range are on screen."""

from __future__ import annotations

from fractions import Fraction

from videoloader.indexing.index import VideoIndex
from videoloader.sampling.sampled_video import SampledVideo


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
