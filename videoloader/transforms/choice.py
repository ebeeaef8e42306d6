"""Transforms that apply others only to some clips, or in another order.

All frames of a clip are treated alike. Clips that draw different operations still run together, so choosing costs
nothing. Crops, flips and other geometric steps may be among them; adjacent ones resample once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

import numpy as np

from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check, check_probability, check_weights, is_true
from videoloader.transforms.operations import ClipInfo, Operation, PixelTransform, Warp, operations_of
from videoloader.transforms.planning.composing import group_geometric
from videoloader.transforms.planning.steps import Choice, GeometryStep, Step

Steps: TypeAlias = Step | Sequence[Step]


def draw_all(transforms: Iterable[Step], rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
    """Draw the operations of successive transforms, each for the frame size that the one before it leaves."""
    operations: list[Operation] = []
    for transform in group_geometric(transforms):
        drawn = operations_of(transform, rng, clip)
        for operation in drawn:
            if isinstance(operation, Warp):
                clip = clip._replace(height=operation.size[0], width=operation.size[1])
        operations += drawn
    return operations


class _Drawn(Choice):
    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return the operations that the chosen transforms draw."""
        return draw_all(self.choose(rng, clip), rng, clip)


@dataclass(frozen=True)
class RandomApply(_Drawn):
    """Apply transforms with probability ``p``: all of them, or none.

    Args:
        transforms: transform or list of them. The transforms, in order.
        p: float, default 0.5. The probability that a clip gets them.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1], or a step is not a transform of pixels.

    Examples:
        >>> transforms = [RandomApply([Brightness((0.6, 1.4)), Saturation((0.6, 1.4))], p=0.8)]
    """

    transforms: Steps
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "transforms", _steps(self.transforms, "RandomApply"))
        check_probability("RandomApply's p", self.p)

    @property
    def alternatives(self) -> list[tuple[Step, ...]]:
        """The alternatives of a clip."""
        return [_steps(self.transforms, "RandomApply"), ()]

    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> tuple[Step, ...]:
        """All transforms, or none."""
        return _steps(self.transforms, "RandomApply") if rng.random() < self.p else ()


@dataclass(frozen=True)
class RandomChoice(_Drawn):
    """Apply one of several transforms.

    Args:
        transforms: sequence of transforms. The choices. A choice may be a list, which is applied in order, or an empty
            one.
        p: sequence of float or None, default None: all are equally likely. The weight of each choice, relative to the
            others.

    Raises:
        ConfigurationError: there is nothing to choose from, ``p`` is not one finite number of at least 0 for each
            choice or is 0 for all, or a step is not a transform of pixels.

    Examples:
        A quarter of the clips is inverted, a quarter is gray, and half are left alone:

            >>> transforms = [RandomChoice([Invert(), Grayscale(), []], p=[1, 1, 2])]
    """

    transforms: Sequence[Steps]
    _: KW_ONLY
    p: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = tuple(_steps(each, "RandomChoice") for each in _several(self.transforms, "RandomChoice"))
        object.__setattr__(self, "transforms", choices)
        if self.p is not None:
            object.__setattr__(self, "p", tuple(self.p) if isinstance(self.p, Sequence) else self.p)
            check_weights("RandomChoice's p", self.p, len(choices))

    @property
    def alternatives(self) -> list[tuple[Step, ...]]:
        """The alternatives of a clip."""
        return [_steps(each, "RandomChoice") for each in self.transforms]

    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> tuple[Step, ...]:
        """The chosen transform, or list of them."""
        weights = np.ones(len(self.transforms)) if self.p is None else np.asarray(self.p, np.float64)
        ends = np.cumsum(weights)
        chosen = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
        return _steps(self.transforms[chosen], "RandomChoice")


@dataclass(frozen=True)
class RandomOrder(_Drawn):
    """Apply all of several transforms, in an order drawn for each clip.

    Args:
        transforms: sequence of transforms. The transforms to order. A list among them stays together, in order.

    Raises:
        ConfigurationError: there are no transforms, or a step is not a transform of pixels.

    Examples:
        >>> transforms = [RandomOrder([Posterize((4, 8)), Solarize((128, 256)), Invert()])]
    """

    transforms: Sequence[Steps]

    def __post_init__(self) -> None:
        super().__post_init__()
        several = tuple(_steps(each, "RandomOrder") for each in _several(self.transforms, "RandomOrder"))
        object.__setattr__(self, "transforms", several)

    @property
    def alternatives(self) -> list[tuple[Step, ...]]:
        """Two of perhaps millions of orders: between them, any two transforms come in either order."""
        order = range(len(self.transforms))
        return [self._ordered(order), self._ordered(reversed(order))]

    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> tuple[Step, ...]:
        """The transforms in the order drawn."""
        return self._ordered(rng.permutation(len(self.transforms)).tolist())

    def _ordered(self, order: Iterable[int]) -> tuple[Step, ...]:
        return tuple(step for place in order for step in _steps(self.transforms[place], "RandomOrder"))


@dataclass(frozen=True)
class When(_Drawn):
    """Apply transforms to the clips that meet a condition.

    Args:
        predicate: function. It takes the clip's ``ClipInfo``: length, height, width, label, and columns, the other
            columns of the data set (text, if they come from CSV). In ``Video.read``, and in a ``Compose`` without
            labels, the label is None. The function should depend on nothing else, so that clips can be reproduced.
            Define it at module level if it must be pickled. A label that is compared with a text or a negative number
            gives a warning. Other conditions that are never true do not, such as a column of CSV that is compared with
            a number.
        transforms: transform or list of them. The transforms where the condition is true, in order.
        otherwise: transform or list of them, default none. The transforms where it is false.

    Raises:
        ConfigurationError: the predicate cannot be called, or a step is not a transform of pixels; in use, the
            predicate returns a text that says no (``"0"``), which Python takes for True.

    Examples:
        >>> dark = lambda clip: clip.columns["night"] == "1"
        >>> transforms = [When(dark, Gamma(0.6), otherwise=Contrast((0.8, 1.2)))]

        Labels are numbers:

            >>> running = data.class_names.index("running")
            >>> transforms = [When(lambda clip: clip.label == running, RandomHorizontalFlip())]
    """

    predicate: Callable[[ClipInfo], bool]
    transforms: Steps
    otherwise: Steps = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check("When's predicate", self.predicate, callable(self.predicate), "a function of a ClipInfo")
        object.__setattr__(self, "transforms", _steps(self.transforms, "When"))
        object.__setattr__(self, "otherwise", _steps(self.otherwise, "When"))

    @property
    def alternatives(self) -> list[tuple[Step, ...]]:
        """The alternatives of a clip."""
        return [_steps(self.transforms, "When"), _steps(self.otherwise, "When")]

    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> tuple[Step, ...]:
        """The transforms for the clip's case."""
        chosen = is_true("When's predicate", self.predicate(clip))
        return _steps(self.transforms if chosen else self.otherwise, "When")


def _several(transforms: Sequence[Steps], name: str) -> Sequence[Steps]:
    is_list = isinstance(transforms, Sequence) and transforms
    check(f"{name}'s transforms", transforms, is_list, "a list of at least one")
    return transforms


def _steps(transforms: Steps, name: str) -> tuple[Step, ...]:
    steps: tuple[Step, ...] = tuple(transforms) if isinstance(transforms, Sequence) else (transforms,)
    for step in steps:
        if not isinstance(step, (PixelTransform, GeometryStep)):
            wanted = "a transform of pixels or a geometric one"
            raise ConfigurationError(f"each of {name}'s transforms must be {wanted}, got {step!r}")
    return steps
