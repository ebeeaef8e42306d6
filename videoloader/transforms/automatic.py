"""Automatic augmentation: policies that draw operations and their strengths, the same for all frames of a clip.

The operations are auto_contrast, brightness, color, contrast, equalize, identity, invert, posterize, rotate, sharpness,
shear_x, shear_y, solarize, solarize_add, translate_x and translate_y, and any made with ``augmentation``. Statistics
are computed over the whole clip. ``policies`` has the tables of magnitudes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from videoloader.convert.spec import Interpolation, fill_color
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check, check_choice, check_integer, check_numbers, check_probability
from videoloader.runtime.cached_property import cached_property
from videoloader.transforms.augmentation import Augmentation
from videoloader.transforms.automatic_operations import GEOMETRIC, color_operations, warps
from videoloader.transforms.operations import ClipInfo, Operation, PixelTransform, checked
from videoloader.transforms.policies import (
    AUTO_AUGMENT_BINS,
    DEFAULT_OPERATIONS,
    NOT_MONOTONIC,
    POLICIES,
    RAND_AUGMENT,
    TRIVIAL_AUGMENT_WIDE,
    UNITS,
    Strength,
    Strengths,
)

Named: TypeAlias = str | Augmentation
# Magnitudes in the first bin and in the last.
Span: TypeAlias = tuple[float, float]
Operations: TypeAlias = "Sequence[Named | tuple[Named, Span]] | Mapping[str, Span | None] | Mapping[Named, Span | None]"
Chosen: TypeAlias = "tuple[Named, Strength | None]"
# An operation with its magnitudes, the bin, and a number in [0, 1) that decides the sign; see ``Strength.at``.
DrawnStep: TypeAlias = tuple[Chosen, int, float]
PolicyName: TypeAlias = Literal["image_net", "reduced_image_net", "reduced_cifar10", "svhn"]
OwnPolicy: TypeAlias = Sequence[Sequence[tuple[Named, float, "int | None"]]]


@dataclass(frozen=True)
class _Automatic(PixelTransform):
    """Base of the policies; ``RandAugment`` explains the fields."""

    _: KW_ONLY
    operations: Operations | None = None
    interpolation: Interpolation = "bilinear"
    fill: float | Sequence[float] = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = type(self).__name__
        object.__setattr__(self, "fill", fill_color(self.fill))
        if self.operations is None:
            return
        given = self.operations.items() if isinstance(self.operations, Mapping) else self.operations
        listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
        check(f"{kind}'s operations", self.operations, listed, "a list of at least one")
        named: list[Any] = []
        for each in listed:
            # An operation given by name alone has the policy's magnitudes.
            name, span = each if isinstance(each, tuple) and len(each) == 2 else (each, None)
            _check_operation(name, f"one of {kind}'s operations")
            if span is not None:
                _check_span(f"{kind}'s {_label(name)}", name, span, self._published(name))
            named.append(name if span is None else (name, tuple(span)))
        object.__setattr__(self, "operations", tuple(named))

    @property
    @abstractmethod
    def _strengths(self) -> Strengths:
        """The policy's magnitudes."""

    def _published(self, name: Named) -> Strength | None:
        return name.strength if isinstance(name, Augmentation) else self._strengths[name]

    @cached_property
    def _choices(self) -> Sequence[Chosen]:
        """The operations to draw from."""
        choices: list[Chosen] = []
        for each in self.operations or DEFAULT_OPERATIONS:
            name, span = each if isinstance(each, tuple) else (each, None)
            strength = self._published(name)
            choices.append((name, strength if strength is None or span is None else strength.within(*span)))
        return choices

    def _operations(
        self, steps: Iterable[DrawnStep], bins: int, rng: np.random.Generator, clip: ClipInfo
    ) -> list[Operation]:
        """The steps' operations, each at the magnitude of its bin."""
        # __post_init__ has converted it.
        fill = cast(tuple[float, float, float], self.fill)
        size = clip.height, clip.width
        operations: list[Operation] = []
        for (name, strength), place, sign in steps:
            magnitude = None if strength is None else strength.at(place, bins, sign, size)
            if isinstance(name, Augmentation):
                operations.append(name.operation(magnitude, rng))
            elif magnitude is None or name not in GEOMETRIC:
                operations += color_operations(name, magnitude)
            else:
                operations += warps(name, magnitude, size, self.interpolation, fill)
        return operations


@dataclass(frozen=True)
class RandAugment(_Automatic):
    """Apply ``n`` operations at magnitude ``m``, each drawn uniformly from all operations.

    Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", arXiv 1909.13719.
    Signs of magnitudes are equally likely. In the last bin shears are ±0.3, rotations ±30°, translations ±100/224 of
    the size, enhancements 1 ± 0.9, posterize keeps 4 bits, solarize inverts from 0 on, and solarize_add adds 110.

    Args:
        n: int, default 2. The number of operations that each clip gets, at least 0.
        m: int, default 9. The bin of their magnitudes, 0 to ``bins`` − 1.
        bins: int, default 31. The number of magnitudes, at least 1; they are evenly spaced.
        monotonic: bool, default True. Whether a larger bin is a stronger operation. If False, as in the authors' code,
            brightness, color, contrast and sharpness have factors from 0.1 in the first bin to 1.9 in the last, without
            a sign, posterize keeps 0 to 4 bits (but at least 1), and solarize inverts from 0 to 256 on.
        operations: sequence or mapping, default None: the 14 operations of the paper, which are all but invert and
            solarize_add. The operations to draw from, by name or made with ``augmentation``. A mapping, or pairs, set
            an operation's magnitudes in the first and the last bin; None keeps the policy's. Magnitudes are tangents of
            shears, degrees, shares of width or height (pixels in ``TrivialAugmentWide``), differences from the factor
            1, bits, thresholds or addends. Signs are drawn as before unless the magnitudes reach below zero: (-10, 10)
            degrees are 0 to 10 of either sign, (-10, 20) are taken as they are.
        interpolation: str, default ``"bilinear"``. The interpolation of rotations, shears and translations; see
            ``Warp``.
        fill: number or three of them, default 128. The red, green and blue of the area that they leave empty, or one
            number for all three, 0 … 255.

    Raises:
        ConfigurationError: a number is outside its range, or there is no such operation, interpolation or colour.

    Examples:
        >>> transforms = [RandomResizedCrop(224), RandomHorizontalFlip(), RandAugment(n=2, m=9), Normalize()]
        >>> transforms = [RandAugment(operations={"rotate": (-10, 10), "posterize": (8, 6), "equalize": None})]
    """

    n: int = field(default=2, metadata=checked(check_integer, 0))
    m: int = 9
    _: KW_ONLY
    bins: int = field(default=31, metadata=checked(check_integer))
    monotonic: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("RandAugment's m", self.m, 0, self.bins - 1)

    @property
    def _strengths(self) -> Strengths:
        return RAND_AUGMENT if self.monotonic else NOT_MONOTONIC

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return at most ``n`` operations."""
        choices = self._choices
        numbers = zip(*rng.random((2, self.n)).tolist(), strict=True)
        steps = [(choices[int(chosen * len(choices))], self.m, sign) for chosen, sign in numbers]
        return self._operations(steps, self.bins, rng, clip)


@dataclass(frozen=True)
class TrivialAugmentWide(_Automatic):
    """Apply one operation drawn uniformly, at a magnitude drawn uniformly.

    Müller and Hutter, "TrivialAugment: Tuning-free yet state-of-the-art data augmentation", arXiv 2103.10158, with its
    wide space of magnitudes. Signs are equally likely. In the last bin shears are ±0.99, rotations ±135°, translations
    ±32 pixels, enhancements 1 ± 0.99, posterize keeps 2 bits, solarize inverts from 0 on, and solarize_add adds 110.

    Args:
        bins: int, default 31. The number of magnitudes, at least 1; they are evenly spaced.
        operations, interpolation, fill: default None, ``"bilinear"`` and 128. See ``RandAugment``.

    Raises:
        ConfigurationError: a number is outside its range, or there is no such operation, interpolation or colour.

    Examples:
        >>> transforms = [RandomResizedCrop(224), TrivialAugmentWide(), Normalize()]
    """

    _: KW_ONLY
    bins: int = field(default=31, metadata=checked(check_integer))

    @property
    def _strengths(self) -> Strengths:
        return TRIVIAL_AUGMENT_WIDE

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return at most one operation."""
        choices = self._choices
        chosen, share, sign = rng.random(3).tolist()
        step = choices[int(chosen * len(choices))], int(share * self.bins), sign
        return self._operations([step], self.bins, rng, clip)


@dataclass(frozen=True)
class AutoAugment(_Automatic):
    """Apply one sub-policy, drawn uniformly: operations, each with a probability and a magnitude.

    Cubuk et al., "AutoAugment: Learning augmentation policies from data", arXiv 1805.09501. The 11 magnitudes, 0 to 10,
    span the ranges with which the policies were searched: those of ``RandAugment(monotonic=False)``. Signs are equally
    likely.

    Args:
        policy: str or sequence, default ``"image_net"``. A published policy: ``"image_net"``, ``"reduced_image_net"``
            (torchvision's IMAGENET), ``"reduced_cifar10"`` or ``"svhn"``; or your own sub-policies, each a sequence of
            (operation, probability, bin). The bin is 0 to 10, or None for an operation without magnitudes.
        monotonic: bool, default False. Whether to use the ranges of ``RandAugment(monotonic=True)`` instead, as
            torchvision does.
        operations: sequence or mapping, default None: all. The operations that may be applied, by name or made with
            ``augmentation``; others are left out of their sub-policies. They may have their own magnitudes; see
            ``RandAugment``.
        interpolation, fill: default ``"bilinear"`` and 128. See ``RandAugment``.

    Raises:
        ConfigurationError: there is no such policy, operation, interpolation or colour, or a sub-policy has another
            form.

    Examples:
        >>> transforms = [RandomResizedCrop(224), AutoAugment("image_net"), Normalize()]
        >>> transforms = [AutoAugment([[("rotate", 0.7, 4), ("equalize", 0.5, None)], [("invert", 0.2, None)]])]
    """

    policy: PolicyName | OwnPolicy = "image_net"
    _: KW_ONLY
    monotonic: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.policy, str):
            check_choice("AutoAugment's policy", self.policy, POLICIES)
            return
        object.__setattr__(self, "policy", _own_policy(self.policy))

    @property
    def _strengths(self) -> Strengths:
        return RAND_AUGMENT if self.monotonic else NOT_MONOTONIC

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return all or some of the operations of one sub-policy."""
        allowed = None if self.operations is None else dict(self._choices)
        policy: OwnPolicy = POLICIES[self.policy] if isinstance(self.policy, str) else self.policy
        sub_policy = policy[int(rng.random() * len(policy))]
        numbers = rng.random((2, len(sub_policy))).tolist()
        steps = [
            ((name, self._published(name) if allowed is None else allowed[name]), place or 0, sign)
            for (name, probability, place), share, sign in zip(sub_policy, *numbers, strict=True)
            if share < probability and (allowed is None or name in allowed)
        ]
        return self._operations(steps, AUTO_AUGMENT_BINS, rng, clip)


def _own_policy(policy: OwnPolicy) -> OwnPolicy:
    try:
        rows = tuple(tuple((name, p, place) for name, p, place in row) for row in policy)
    except (TypeError, ValueError):
        rows = ()
    check("AutoAugment's policy", policy, rows, "a name or a list of lists of (operation, probability, bin)")
    for name, p, place in (step for row in rows for step in row):
        strength = _check_operation(name, "an operation of AutoAugment's policy")
        label = _label(name)
        check_probability(f"the probability of {label} in AutoAugment's policy", p)
        bin_of = f"the bin of {label} in AutoAugment's policy"
        if strength is None:
            check(bin_of, place, place is None, "None, as it has no magnitude")
        else:
            check_integer(bin_of, place, 0, AUTO_AUGMENT_BINS - 1)
    return rows


def _check_operation(name: Named, what: str) -> Strength | None:
    if isinstance(name, Augmentation):
        return name.strength
    known = f"one of {', '.join(sorted(RAND_AUGMENT))} or made with augmentation"
    check(what, name, isinstance(name, str) and name in RAND_AUGMENT, known)
    return RAND_AUGMENT[name]


def _check_span(what: str, name: Named, span: Any, published: Strength | None) -> None:
    if published is None:
        raise ConfigurationError(f"{what} has no magnitudes, so it cannot have {span!r}: write None")
    if isinstance(name, Augmentation):
        unit, (low, high) = "magnitudes", sorted(published[:2])
        low = min(low, -high) if published.signed else low
    elif name in UNITS:
        unit, low, high = UNITS[name]
    else:
        unit, high = ("pixels", 1e4) if published.share_of is None else (f"shares of the {published.share_of}", 1.0)
        low = -high
    ends = tuple(span) if isinstance(span, list) else span
    wanted = f"two numbers in [{low:g}, {high:g}], {unit}"
    check_numbers(what, ends, 2, wanted, lambda *both: low <= min(both) <= max(both) <= high)


def _label(name: Named) -> str:
    return name if isinstance(name, str) else name.name
