"""Transforms of colours.

A parameter of type ``Range`` is a fixed number; ``(low, high)``, from which one value is drawn uniformly for each clip;
or a curve over the clip's frames (``videoloader.transforms.curves``). To change only some clips, put the transform into
``RandomApply``.

Contrast uses the mean of the whole clip, so that nothing flickers; ``per_frame=True`` treats each frame as a separate
picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import numpy as np

from videoloader.errors.checks import check_probability
from videoloader.transforms import color_operations as to
from videoloader.transforms.curves import Range, check_factor, check_range, draw_range
from videoloader.transforms.operations import ClipInfo, Operation, PixelTransform, checked


@dataclass(frozen=True)
class ByFactor(PixelTransform):
    """Base of changes by a factor of at least 0; 1 changes nothing."""

    factor: Range = field(metadata=checked(check_factor))


@dataclass(frozen=True)
class Brightness(ByFactor):
    """Multiply all values (Pillow's ``ImageEnhance.Brightness``).

    Args:
        factor: number, (low, high) or curve. At least 0: 0 is black, 1 changes nothing. A number is the factor of every
            clip; from (low, high) each clip draws its own. torchvision's ``brightness=0.4`` is that of ``ColorJitter``.

    Raises:
        ConfigurationError: the factor is below 0.

    Examples:
        Clips that are up to a fifth darker or brighter, and clips that get darker or brighter over time:

            >>> from videoloader.transforms import Linear
            >>> transforms = [Brightness((0.8, 1.2))]
            >>> transforms = [Brightness(Linear(0.8, 1.2))]
    """

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table."""
        return [to.brightness(draw_range(self.factor, rng, clip.length))]


@dataclass(frozen=True)
class Contrast(ByFactor):
    """Move all values away from or towards the mean gray (Pillow's ``ImageEnhance.Contrast``).

    Args:
        factor: number, (low, high) or curve. At least 0: 0 is the mean gray alone, 1 changes nothing.
        per_frame: bool, default False. Whether each frame has its own mean.

    Raises:
        ConfigurationError: the factor is below 0.

    Examples:
        >>> transforms = [Contrast((0.5, 1.5))]
    """

    _: KW_ONLY
    per_frame: bool = False

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table that follows from the pixels."""
        return [to.contrast(draw_range(self.factor, rng, clip.length), per_frame=self.per_frame)]


@dataclass(frozen=True)
class Saturation(ByFactor):
    """Move colours away from or towards gray (Pillow's ``ImageEnhance.Color``).

    Args:
        factor: number, (low, high) or curve. At least 0: 0 is gray, 1 changes nothing.

    Raises:
        ConfigurationError: the factor is below 0.

    Examples:
        >>> transforms = [Saturation((0.5, 1.5))]
    """

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one matrix."""
        return [to.saturation(draw_range(self.factor, rng, clip.length))]


@dataclass(frozen=True)
class Hue(PixelTransform):
    """Rotate the hue of HSV, as torchvision's ``adjust_hue`` does.

    Args:
        turns: number, (low, high) or curve. The fraction of a full turn, in [−0.5, 0.5]: 1/3 turns red into green, 1/2
            gives the complementary colour, 0 changes nothing.

    Raises:
        ConfigurationError: the turns are outside [−0.5, 0.5].

    Examples:
        >>> transforms = [Hue((-0.1, 0.1))]
    """

    turns: Range = field(metadata=checked(check_range, -0.5, 0.5))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one turn of the hue."""
        return [to.hue(draw_range(self.turns, rng, clip.length))]


@dataclass(frozen=True)
class ColorJitter(PixelTransform):
    """Change brightness, contrast, saturation and hue in random order, as torchvision's ``ColorJitter`` does.

    Here a number is not the factor itself but the largest distance from the factor that changes nothing.

    Args:
        brightness, contrast, saturation: number, (low, high) or curve, default 0. A number b draws factors from [max(0,
            1 − b), 1 + b]; (low, high) and curves are factors of at least 0.
        hue: number, (low, high) or curve, default 0. A number h, at most 0.5, draws turns from [−h, h]; (low, high) and
            curves are turns in [−0.5, 0.5].
        per_frame: bool, default False. See ``Contrast``.

    Raises:
        ConfigurationError: a number, a range or a curve is outside these bounds.

    Examples:
        The colour augmentation of SimCLR, with its probability of 0.8 (Chen et al., arXiv 2002.05709):

            >>> transforms = [RandomApply(ColorJitter(0.8, 0.8, 0.8, 0.2), p=0.8), RandomGrayscale(0.2)]
    """

    brightness: Range = field(default=0, metadata=checked(check_factor))
    contrast: Range = field(default=0, metadata=checked(check_factor))
    saturation: Range = field(default=0, metadata=checked(check_factor))
    hue: Range = 0
    _: KW_ONLY
    per_frame: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        least = 0 if isinstance(self.hue, int | float) else -0.5
        check_range("ColorJitter's hue", self.hue, least, 0.5)

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one operation for each of the four parameters that is not 0."""
        changes: list[tuple[Range, Callable[[to.Values], Operation]]] = [
            (self.brightness, to.brightness),
            (self.contrast, partial(to.contrast, per_frame=self.per_frame)),
            (self.saturation, to.saturation),
            (self.hue, to.hue),
        ]
        operations: list[Operation] = []
        for part in rng.permutation(4):
            value, change = changes[part]
            if value == 0:
                continue
            if isinstance(value, int | float):
                value = (-value, value) if change is to.hue else (max(1 - value, 0), 1 + value)
            operations.append(change(draw_range(value, rng, clip.length)))
        return operations


@dataclass(frozen=True)
class Grayscale(PixelTransform):
    """Replace all three channels by the gray of ITU-R BT.601.

    Examples:
        >>> transforms = [Grayscale()]
    """

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one matrix."""
        return [to.grayscale()]


@dataclass(frozen=True)
class RandomGrayscale(PixelTransform):
    """Make a clip gray with probability ``p``: all its frames, or none.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1].

    Examples:
        >>> transforms = [RandomGrayscale(0.2)]
    """

    p: float = field(default=0.1, metadata=checked(check_probability))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one matrix, or nothing."""
        return [to.grayscale()] if rng.random() < self.p else []
