"""Curves: values of a transform's parameter over the frames of a clip.

A ``Range`` of a transform is one of:

- a number: a fixed value;
- ``(low, high)``: one number for the whole clip, drawn uniformly, the same as ``Uniform(low, high)``;
- a curve: ``Uniform``, ``Linear``, ``RandomWalk``, or any object with ``low``, ``high`` and ``values``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from videoloader.errors import warn_user
from videoloader.errors.checks import check, is_finite

Values: TypeAlias = npt.NDArray[np.float64]


@runtime_checkable
class Curve(Protocol):
    """A way to draw a parameter's values.

    Attributes:
        low, high: bounds of all values.
    """

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    def values(self, rng: np.random.Generator, frames: int) -> Values:
        """float64[1], one value for the whole clip, or float64[frames], one for each frame."""


Range: TypeAlias = float | Sequence[float] | Curve


@dataclass(frozen=True)
class _Between:
    """Base of curves in [low, high]."""

    low: float
    high: float

    def __post_init__(self) -> None:
        holds = is_finite(self.low) and is_finite(self.high) and self.low <= self.high
        check(f"{type(self).__name__}'s ends", (self.low, self.high), holds, "finite numbers, low <= high")


@dataclass(frozen=True)
class Uniform(_Between):
    """One value for the whole clip, drawn uniformly from [low, high].

    Raises:
        ConfigurationError: ``low`` is above ``high``, or one of them is not finite.
    """

    def values(self, rng: np.random.Generator, frames: int) -> Values:
        """float64[1]."""
        return np.array([_between(self.low, self.high, rng.random())])


@dataclass(frozen=True)
class Linear(_Between):
    """A straight line from the first frame to the last, with both ends drawn uniformly from [low, high].

    Raises:
        ConfigurationError: ``low`` is above ``high``, or one of them is not finite.

    Examples:
        A clip that gets brighter or darker over time:

            >>> transforms = [Brightness(Linear(0.6, 1.4))]
    """

    def values(self, rng: np.random.Generator, frames: int) -> Values:
        """float64[frames]."""
        start, end = (_between(self.low, self.high, share) for share in rng.random(2))
        return np.linspace(start, end, frames)


@dataclass(frozen=True)
class RandomWalk(_Between):
    """A random walk with steps drawn uniformly from [−step, step], reflected at ``low`` and ``high``.

    The first frame's value is drawn uniformly from [low, high].

    Raises:
        ConfigurationError: ``low`` is above ``high``, ``step`` is negative, or a number is not finite.

    Examples:
        A camera that shakes by up to three degrees, and by at most one degree from frame to frame:

            >>> transforms = [Rotate(RandomWalk(-3, 3, step=1))]
    """

    step: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check("RandomWalk's step", self.step, 0 <= self.step < math.inf, "a number of at least 0")

    def values(self, rng: np.random.Generator, frames: int) -> Values:
        """float64[frames]."""
        walk = rng.random(frames)
        width = self.high - self.low
        if width == 0:
            return np.full(frames, float(self.low))
        walk[0] *= width
        walk[1:] = (2 * walk[1:] - 1) * self.step
        # Folding a walk into the range reflects it at both ends.
        values: Values = np.maximum(self.high - np.abs(np.cumsum(walk) % (2 * width) - width), self.low)
        return values


# Radians of whole degrees come as close to these; what is written in degrees does not.
_WHOLE = 1e-9
# A larger factor is almost certainly a mistake.
_LARGEST_FACTOR = 10


def check_range(name: str, value: Range, low: float = -math.inf, high: float = math.inf) -> None:
    """Raise ConfigurationError for a parameter from which no value can be drawn, or that exceeds its bounds.

    Args:
        name: transform and parameter for the message: ``"Brightness's factor"``.
        value: the user's value.
        low, high: the least and the largest value allowed.

    Raises:
        ConfigurationError: the parameter is refused; the message has the name and the bounds.
    """
    try:
        least, largest = _bounds(value)
        holds = low <= least <= largest <= high and math.isfinite(least) and math.isfinite(largest)
    except (OverflowError, TypeError, ValueError):
        holds = False
    between = {
        (False, False): "a finite number",
        (True, False): f"at least {low:g}",
        (False, True): f"at most {high:g}",
        (True, True): f"in [{low:g}, {high:g}]",
    }[math.isfinite(low), math.isfinite(high)]
    check(name, value, holds, f"{between}, or a range (low, high) or a curve of such values")


def check_pixel_range(name: str, value: Range, low: float = -math.inf, high: float = math.inf) -> None:
    """``check_range`` for pixel values of 0 … 255, with a warning if the parameter looks like a share of 1."""
    check_range(name, value, low, high)
    ends = _bounds(value)
    if max(map(abs, ends)) <= 1 and any(end % 1 for end in ends):
        warn_user(f"{name} is in pixel values of 0 … 255, got {value!r}: multiply it by 255 if it is a share of 1")


def check_degrees(name: str, value: Range, low: float = -math.inf, high: float = math.inf) -> None:
    """``check_range`` for degrees, with a warning if the parameter is a whole number of degrees in radians."""
    check_range(name, value, low, high)
    degrees = [math.degrees(end) for end in _bounds(value)]
    told_in_radians = all(math.isfinite(each) and abs(each - round(each)) < _WHOLE for each in degrees)
    if told_in_radians and any(map(round, degrees)):
        warn_user(f"{name}: {value!r} seems to be in radians, but angles are in degrees: write math.degrees(…)")


def check_factor(name: str, value: Range, low: float = 0, high: float = math.inf) -> None:
    """``check_range`` for a factor, with a warning if it looks like a difference of pixel values or a percentage."""
    check_range(name, value, low, high)
    tell_of_large_factor(name, value)


def tell_of_large_factor(name: str, value: Range) -> None:
    """Warn about a factor that looks like a difference of pixel values or a percentage."""
    if max(_bounds(value)) > _LARGEST_FACTOR:
        told = "is a factor, not a difference of pixel values or a percentage: 1.2 is a fifth more"
        warn_user(f"{name} {told}, got {value!r}")


def draw_range(value: Range, rng: np.random.Generator, frames: int) -> Values:
    """Draw the values of a parameter for one clip.

    Args:
        value: a range that has passed ``check_range``.
        rng: the clip's own generator. A plain number draws nothing.
        frames: T, the frames of the clip.

    Returns:
        float64[1] or float64[frames].
    """
    if isinstance(value, Curve):
        return value.values(rng, frames)
    if isinstance(value, Sequence):
        return Uniform(*value).values(rng, frames)
    return np.array([float(value)])


def draw_range_by_frame(value: Range, rng: np.random.Generator, frames: int) -> Values:
    """``draw_range`` with one value for each frame: float64[frames], read-only."""
    return np.broadcast_to(draw_range(value, rng, frames), frames)


def _bounds(value: Range) -> tuple[float, float]:
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value), float(value)
    if isinstance(value, Sequence):
        low, high = value
        if not (isinstance(low, Real) and isinstance(high, Real)):
            raise TypeError
        return low, high
    if not isinstance(value, Curve):
        raise TypeError
    return value.low, value.high


def _between(low: float, high: float, share: float) -> float:
    # Rounding must not exceed ``high``.
    return min(low + (high - low) * share, high)
