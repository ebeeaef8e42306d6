"""Compute the start of a file: the earliest start of its streams, as libavformat counts it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

_SECOND = 1_000_000


class StreamStart(NamedTuple):
    """The start of a stream in units of ``base`` seconds. ``timed_text`` marks subtitles and data."""

    time: int
    base: Fraction
    timed_text: bool = False

    def microseconds(self) -> int:
        """Round to nearest, halves away from zero, as av_rescale_q does."""
        scale = self.base.denominator
        rounded = (2 * abs(self.time) * _SECOND * self.base.numerator + scale) // (2 * scale)
        return rounded if self.time >= 0 else -rounded


def earliest_start(starts: Iterable[StreamStart]) -> int:
    """Return the earliest picture or sound in microseconds, or text less than a second before it; 0 if none."""
    media: list[int] = []
    texts: list[int] = []
    for start in starts:
        (texts if start.timed_text else media).append(start.microseconds())
    if not media or (texts and 0 < min(media) - min(texts) < _SECOND):
        return min(texts, default=0)
    return min(media)
