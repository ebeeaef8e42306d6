"""Temporal transforms: they decide which frame each position of a clip shows, when the clip is planned.

They do not touch pixels. A frame that no position shows is not decoded, and a frame that several positions show is
decoded once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from videoloader import padding
from videoloader.errors import ConfigurationError, no_method, wrong_result
from videoloader.errors.checks import array_of, both_ends, check, check_integer, check_numbers, check_probability
from videoloader.errors.notes import note
from videoloader.transforms.curves import tell_of_large_factor
from videoloader.transforms.operations import IN_TRANSFORM, Transform, checked

Positions = npt.NDArray[np.int64]


class TimeTransform(Transform):
    """A temporal transform, which rearranges a clip's frames. It is stateless.

    Examples:
        A complete custom transform:

            class LastFirst(vl.TimeTransform):
                def positions(self, rng, length):
                    return np.arange(length)[::-1]

    Attributes:
        keeps_roles: bool, default False. Whether every frame between two others stays between them, at the same
            distances. Only then can it be used with frame modes that have roles. There it is applied to all frames from
            the first of a clip to the last, and positions keep their roles.
    """

    keeps_roles: ClassVar[bool] = False

    @abstractmethod
    def positions(self, rng: np.random.Generator, length: int) -> Positions:
        """int64[length] in [0, length): the frame of the input clip that each position shows."""
        raise no_method(self, "positions(self, rng, length), which gives int64[length] in [0, length)")


def apply_to_positions(transforms: Sequence[TimeTransform], rng: np.random.Generator, length: int) -> Positions:
    """The frames that a clip shows after these transforms, each applied to the result of the one before.

    Args:
        transforms: transforms in order of application.
        rng: the clip's own generator; each random transform draws from it in turn.
        length: T, the frames of the clip as the frame mode chose them.

    Returns:
        int64[length], indices into these T frames, in any order, with repeats.

    Raises:
        ConfigurationError: a transform returns anything but positions of these frames.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> apply_to_positions([SpeedChange(2), Reverse(p=1)], rng, 5)
        array([4, 4, 4, 2, 0])
    """
    shown = np.arange(length, dtype=np.int64)
    for transform in transforms:
        with note(IN_TRANSFORM, transform):
            positions = array_of(given := transform.positions(rng, len(shown)))
            whole = positions is not None and positions.ndim == 1 and positions.dtype.kind in "iu"
            if positions is None or not (whole and np.all((positions >= 0) & (positions < len(shown)))):
                raise wrong_result(transform, "positions", f"a row of integers in [0, {len(shown)})", given)
            shown = shown[positions]
    return shown


def check_roles_kept(mode: object, transforms: Sequence[TimeTransform]) -> None:
    """Raise ConfigurationError if a temporal transform would make the targets of a mode's clips wrong.

    Args:
        mode: a frame mode, perhaps with roles.
        transforms: temporal transforms of the clips.
    """
    for transform in transforms:
        if not transform.keeps_roles:
            raise ConfigurationError(
                f"{type(transform).__name__} changes which frames are inputs and targets of {type(mode).__name__}: "
                "Reverse is the only transform of time that keeps them"
            )


@dataclass(frozen=True)
class Reverse(TimeTransform):
    """Play a clip backwards with probability ``p``.

    Where a frame mode has roles, the pattern is mirrored: each position keeps its role, and shows the frame as far from
    the end as its own was from the start. ``FrameTuples((0, 3), 1)`` at frame 10 is 10 13 11, and reversed it is 13 10
    12.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1].
    """

    keeps_roles: ClassVar[bool] = True

    p: float = field(default=0.5, metadata=checked(check_probability))

    def positions(self, rng: np.random.Generator, length: int) -> Positions:
        """All frames, in either order."""
        forward = np.arange(length, dtype=np.int64)
        return forward[::-1].copy() if rng.random() < self.p else forward


@dataclass(frozen=True)
class _SomeFrames(TimeTransform):
    """Base of changes to some frames: each with a probability, or a given number of them."""

    share: float | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if (self.share is None) == (self.count is None):
            raise ConfigurationError(f"{name} needs either share or count, not both or neither of them")
        if self.share is not None:
            check_probability(f"{name}'s share", self.share)
        if self.count is not None:
            check_integer(f"{name}'s count", self.count, 0)

    def _choose(self, rng: np.random.Generator, length: int) -> npt.NDArray[np.bool_]:
        """bool[length]: the chosen positions, never the first."""
        chosen = np.zeros(length, np.bool_)
        if self.share is not None:
            chosen[1:] = rng.random(length - 1) < self.share
        else:
            chosen[1 + rng.permutation(length - 1)[: self.count]] = True
        return chosen


@dataclass(frozen=True)
class DropFrames(_SomeFrames):
    """Drop frames, as a stream on a bad connection does: the last frame before each dropped one is shown instead.

    The first frame is kept, and frames after dropped ones come at their own time. Give exactly one argument.

    Args:
        share: float, default None. The probability that a frame is dropped, in [0, 1].
        count: int, default None. The number of dropped frames; at most all but the first.

    Raises:
        ConfigurationError: both or neither of them is given, or it is out of range.

    Examples:
        >>> DropFrames(count=2).positions(np.random.default_rng(1), 6)
        array([0, 0, 2, 3, 4, 4])
    """

    def positions(self, rng: np.random.Generator, length: int) -> Positions:
        """Each frame, or the last one before it that is not dropped."""
        lost = self._choose(rng, length)
        return np.maximum.accumulate(np.where(lost, 0, np.arange(length, dtype=np.int64)))


@dataclass(frozen=True)
class RepeatFrames(_SomeFrames):
    """Repeat frames, which delays all later frames; the last frames are no longer shown.

    Give exactly one argument.

    Args:
        share: float, default None. The probability that a position after the first repeats the frame before it, in [0,
            1].
        count: int, default None. The number of positions that do; at most all but the first.

    Raises:
        ConfigurationError: both or neither of them is given, or it is out of range.

    Examples:
        >>> RepeatFrames(count=2).positions(np.random.default_rng(1), 6)
        array([0, 0, 1, 2, 3, 3])
    """

    def positions(self, rng: np.random.Generator, length: int) -> Positions:
        """The previous position's frame where it is repeated, else the frame after that."""
        repeated = self._choose(rng, length)
        return np.cumsum(~repeated, dtype=np.int64) - 1


@dataclass(frozen=True)
class TemporalJitter(TimeTransform):
    """Show at each position a frame up to ``max_offset`` frames before or after, drawn uniformly.

    Beyond the clip's ends its first or last frame is shown. Frames may swap places.

    Raises:
        ConfigurationError: ``max_offset`` is negative or not an integer.
    """

    max_offset: int = field(metadata=checked(check_integer, 0))

    def positions(self, rng: np.random.Generator, length: int) -> Positions:
        """Each position plus its offset, clipped to the clip."""
        offsets = rng.integers(-self.max_offset, self.max_offset, size=length, endpoint=True)
        return (np.arange(length, dtype=np.int64) + offsets).clip(0, length - 1)


@dataclass(frozen=True)
class SpeedChange(TimeTransform):
    """Play a clip faster or slower from its first frame on: position i shows frame ``floor(factor · i + 1/2)``.

    A clip shows only frames that the frame mode has chosen. So a faster clip ends early, and ``beyond`` decides what
    its last positions show. These are frames of the video, so ``mask``, which only marks padding, is True there.

    Args:
        factor: float or (float, float). Above 0: 2 is twice as fast, 0.5 shows each frame twice. A factor from (low,
            high) is drawn log-uniformly, so that (0.5, 2) makes clips faster as often as slower.
        beyond: str, default ``"edge"``. A mode of ``padding.pad`` or its alias: ``"edge"`` holds the last frame,
            ``"reflect_101"`` and ``"reflect_1001"`` play backwards, and ``"wrap"`` starts again.

    Raises:
        ConfigurationError: the factor is not above 0 or not finite, the range is empty, or there is no such mode.

    Examples:
        >>> SpeedChange(1.5, beyond="reflect_101").positions(np.random.default_rng(0), 6)
        array([0, 2, 3, 5, 4, 2])
    """

    factor: float | tuple[float, float]
    beyond: padding.Repeating = "edge"

    def __post_init__(self) -> None:
        super().__post_init__()
        count = 2 if isinstance(self.factor, tuple) else None
        wanted = "a number above 0, or a range (low, high) of such"
        check_numbers("SpeedChange's factor", self.factor, count, wanted, lambda *each: 0 < each[0] <= each[-1])
        tell_of_large_factor("SpeedChange's factor", self.factor)
        repeats = padding.check_mode(self.beyond) not in ("none", "constant")
        check("SpeedChange's beyond", self.beyond, repeats, "edge, reflect_101, reflect_1001 or wrap")

    def positions(self, rng: np.random.Generator, length: int) -> Positions:
        """Positions at the drawn speed, padded to stay in the clip."""
        low, high = both_ends(self.factor)
        factor = low if low == high else math.exp(rng.uniform(math.log(low), math.log(high)))
        # The limit is far beyond any clip, but still an integer that float64 and int64 hold exactly.
        wanted = np.floor(np.minimum(float(factor) * np.arange(length), 2.0**52) + 0.5).astype(np.int64)
        return padding.pad(wanted, 0, length, self.beyond)[0]
