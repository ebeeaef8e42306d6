"""When a file begins: the earliest start of its streams, counted as libavformat does."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import floor
from typing import NamedTuple

_SECOND = 1_000_000


class StreamStart(NamedTuple):
    """When a stream begins: a time in units of ``base`` seconds. Subtitles and data are ``timed_text``."""

    time: int
    base: Fraction
    timed_text: bool = False

    def microseconds(self) -> int:
        """Rounded to nearest, halves away from zero, as av_rescale_q does."""
        exact = self.time * self.base * _SECOND
        return floor(exact + Fraction(1, 2)) if exact >= 0 else -floor(-exact + Fraction(1, 2))


def earliest_start(starts: Iterable[StreamStart]) -> int:
    """Microseconds: the first picture or sound of all, or text that comes less than a second before it; else 0."""
    ordered = [(start.timed_text, start.microseconds()) for start in starts]
    text = min((time for is_text, time in ordered if is_text), default=None)
    media = min((time for is_text, time in ordered if not is_text), default=None)
    if media is None or (text is not None and 0 < media - text < _SECOND):
        return text or 0
    return media
