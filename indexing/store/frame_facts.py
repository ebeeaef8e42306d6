"""Facts about a video's frames that a store keeps in columns, for questions about a million videos at once.

The times of frames that come at a constant rate follow a rule of a few numbers, however they were rounded: frame n is
shown at ``first + grain * floor((offset + n * rise) / run)`` on the video's clock. (A digital straight line: Reveillès,
"Géométrie discrète, calcul en nombres entiers et algorithmique", 1991.) With it, the frames of many videos are found
exactly in array code. For videos whose times follow no rule, the indexes are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from videoloader.indexing.index import VideoIndex
from videoloader.indexing.store.columns import Integers

# first, zero, grain, offset, rise, run, and the time base's numerator and denominator.
RULE_SIZE = 8
NO_RULE = " ".join("0" * RULE_SIZE)
# Each pass over all frames rules out some slopes. This is several times what existing rates need.
_LOOKS = 12
# Products of numbers below this are exact in float64.
_EXACT = 1 << 52


def is_even(index: VideoIndex) -> bool:
    """Whether frames come evenly everywhere: distances between neighbours differ by no more than rounding."""
    return not index.is_vfr and bool((np.diff(index.clock) > 0).all())


def first_key_frame(index: VideoIndex) -> int:
    """Return the number of the first frame that is a keyframe; the number of frames if none is."""
    keys = _key_frames(index)
    return int(keys[0]) if len(keys) else len(index)


def frames_without_key(index: VideoIndex) -> int:
    """Return the largest number of consecutive frames none of which is a keyframe."""
    return int(np.diff(np.concatenate(([-1], _key_frames(index), [len(index)]))).max()) - 1


def _key_frames(index: VideoIndex) -> Integers:
    return np.flatnonzero(index.packet_key[index.frame_packet])


def time_rule(index: VideoIndex) -> str:
    """Return the rule that the frames' times follow, as text; ``NO_RULE`` if they follow none."""
    clock, base = index.clock, index.stream.time_base
    line = _line_through(clock)
    largest = max(abs(int(clock[0])), abs(int(clock[-1])), abs(index.zero)) if line else 0
    if line is None or 4 * largest * base.numerator >= _EXACT or base.denominator >= _EXACT:
        return NO_RULE
    return " ".join(map(str, (clock[0], index.zero, *line, base.numerator, base.denominator)))


def _line_through(clock: Integers) -> tuple[int, int, int, int] | None:
    """Return (grain, offset, rise, run) of the rule for times that never fall; None if there is none."""
    count = len(clock)
    steps = np.diff(clock)
    if count < 2 or not (grain := int(np.gcd.reduce(steps))):
        return None
    units = (clock - clock[0]) // grain
    numbers, last = np.arange(count), int(units[-1])
    # The range of slopes that are still possible, excluding its ends.
    low, high = Fraction(max(last - 1, 0), count - 1), Fraction(last + 1, count - 1)
    for _ in range(_LOOKS):
        slope = _simplest_between(low, high)
        rise, run = slope.numerator, slope.denominator
        if max(last, 1) * run >= _EXACT or count * rise >= _EXACT:
            return None
        excess = units * run - numbers * rise
        highest, lowest = int(excess.argmax()), int(excess.argmin())
        if int(excess[highest] - excess[lowest]) < run:
            return grain, int(excess[highest]), rise, run
        # A line with this slope rises too little, or too much, from one of these two frames to the other.
        apart, risen = highest - lowest, int(units[highest] - units[lowest])
        if apart > 0:
            low = max(low, Fraction(risen - 1, apart))
        else:
            high = min(high, Fraction(risen - 1, apart))
        if low >= high:
            return None
    return None


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator strictly between two others; low is not negative."""
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    if low == whole:
        # The first 1/n that is small enough.
        rest = high - whole
        return whole + Fraction(1, rest.denominator // rest.numerator + 1)
    return whole + 1 / _simplest_between(1 / (high - whole), 1 / (low - whole))


@dataclass(frozen=True, eq=False)
class TimeRules:
    """The rules of many videos.

    Attributes:
        frames: int64[V], number of frames of each video.
        numbers: int64[V, RULE_SIZE]; zeros for videos without a rule.
    """

    frames: Integers
    numbers: Integers

    def known(self) -> npt.NDArray[np.bool_]:
        """Return which videos have a rule, bool[V]."""
        _, _, grain, offset, rise, run, numerator, denominator = self.numbers.T
        positive = np.stack([self.frames, grain, rise, run, numerator, denominator]).min(0) > 0
        small = (np.abs(self.numbers).max(1) < _EXACT) & (self.frames < _EXACT // np.maximum(rise, 1))
        sound: npt.NDArray[np.bool_] = positive & small & (offset >= 0) & (offset < run)
        return sound

    def take(self, rows: npt.NDArray[np.int64]) -> TimeRules:
        """Return the rules of some of the videos."""
        return TimeRules(self.frames[rows], self.numbers[rows])

    @property
    def time_base(self) -> Integers:
        """Seconds per unit of each clock, as numerator and denominator: int64[2, V]."""
        return self.numbers[:, 6:].T

    @property
    def first(self) -> Integers:
        """Value of each clock at the first frame: int64[V]."""
        return self.numbers[:, 0]

    @property
    def last(self) -> Integers:
        """Value of each clock at the last frame: int64[V]."""
        return self.first + self.numbers[:, 2] * self._steps_to(self.frames - 1)

    @property
    def zero(self) -> Integers:
        """Value of each clock at the file's start, as ``VideoIndex.zero``: int64[V]."""
        return self.numbers[:, 1]

    def first_at_or_after(self, units: Integers) -> Integers:
        """Return each video's first frame whose time is not before this: int64[V]; ``frames`` if there is none."""
        first, _, grain, offset, rise, run, *_ = self.numbers.T
        # The number of grains needed, but at most one more than there are, so that no product is too large.
        needed = np.minimum(-((first - units) // grain), self._steps_to(self.frames - 1) + 1)
        found: Integers = np.where(needed > 0, -((offset - needed * run) // rise), 0)
        return np.clip(found, 0, self.frames)

    def _steps_to(self, frame: Integers) -> Integers:
        _, _, _, offset, rise, run, *_ = self.numbers.T
        steps: Integers = (offset + frame * rise) // run
        return steps
