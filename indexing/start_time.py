"""The start of a file: the earliest start of its streams, counted as libavformat does."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

_SECOND = 1_000_000


class StreamStart(NamedTuple):
    """The start of a stream: a time in units of ``base`` seconds. Subtitles and data are ``timed_text``."""

    time: int
    base: Fraction
    timed_text: bool = False

    def microseconds(self) -> int:
        """Rounded to nearest, halves away from zero, as av_rescale_q does."""
        scale = self.base.denominator
        rounded = (2 * abs(self.time) * _SECOND * self.base.numerator + scale) // (2 * scale)
        return rounded if self.time >= 0 else -rounded


def earliest_start(starts: Iterable[StreamStart]) -> int:
    """Microseconds: the first picture or sound of all, or text that comes less than a second before it; else 0."""
    media: list[int] = []
    texts: list[int] = []
    for start in starts:
        (texts if start.timed_text else media).append(start.microseconds())
    if not media or (texts and 0 < min(media) - min(texts) < _SECOND):
        return min(texts, default=0)
    return min(media)
