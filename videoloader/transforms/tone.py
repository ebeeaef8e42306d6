"""Transforms of tones: curves applied to each channel, and sharpness.

``videoloader.transforms.color`` explains the parameters. Pixel statistics are computed over the whole clip, so that
nothing flickers; ``per_frame=True`` treats each frame as a separate picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from videoloader.transforms import color_operations as to
from videoloader.transforms.color import ByFactor
from videoloader.transforms.curves import Range, Uniform, check_pixel_range, check_range, draw_range
from videoloader.transforms.operations import ClipInfo, Operation, PixelTransform, checked


@dataclass(frozen=True)
class Gamma(PixelTransform):
    """Raise values in [0, 1] to a power, as torchvision's ``adjust_gamma`` does.

    Args:
        gamma: number, (low, high) or curve. The exponent, at least 0: above 1 darkens the shadows, below 1 lightens
            them.
        gain: number, (low, high) or curve, default 1. The factor by which to multiply the result, at least 0.

    Raises:
        ConfigurationError: a gamma or a gain is below 0.

    Examples:
        >>> transforms = [Gamma((0.7, 1.5))]
    """

    gamma: Range = field(metadata=checked(check_range, 0))
    _: KW_ONLY
    gain: Range = field(default=1, metadata=checked(check_range, 0))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table."""
        return [to.gamma(draw_range(self.gamma, rng, clip.length), draw_range(self.gain, rng, clip.length))]


@dataclass(frozen=True)
class Invert(PixelTransform):
    """Invert all values: 255 − value.

    Examples:
        >>> transforms = [RandomApply(Invert(), p=0.1)]
    """

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table."""
        return [to.invert()]


@dataclass(frozen=True)
class Posterize(PixelTransform):
    """Keep only the upper bits of each value (Pillow's ``ImageOps.posterize``).

    Args:
        bits: number, (low, high) or curve. The number of bits in [0, 8]; 8 changes nothing. With (low, high) each
            integer is equally likely; other values are rounded.

    Raises:
        ConfigurationError: the bits are outside [0, 8].

    Examples:
        >>> transforms = [Posterize((4, 8))]
    """

    bits: Range = field(metadata=checked(check_range, 0, 8))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table."""
        bits: Range = self.bits
        if isinstance(bits, Sequence):
            # Once rounded, each integer between them is equally likely.
            low, high = bits
            bits = Uniform(low - 0.5, high + 0.5)
        rounded = np.floor(draw_range(bits, rng, clip.length) + 0.5)
        return [to.posterize(np.minimum(rounded, 8).astype(np.int64))]


@dataclass(frozen=True)
class Solarize(PixelTransform):
    """Invert bright values (Pillow's ``ImageOps.solarize``).

    Args:
        threshold: number, (low, high) or curve, default 128. The least value to invert, in [0, 256]: 0 inverts all
            values, 256 none.

    Raises:
        ConfigurationError: the threshold is outside [0, 256].

    Examples:
        >>> transforms = [RandomApply(Solarize(128), p=0.2)]
    """

    threshold: Range = field(default=128, metadata=checked(check_pixel_range, 0, 256))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table."""
        return [to.solarize(draw_range(self.threshold, rng, clip.length))]


@dataclass(frozen=True)
class SolarizeAdd(PixelTransform):
    """Add a number to dark values (an operation of AutoAugment, Cubuk et al., arXiv 1805.09501).

    Args:
        addend: number, (low, high) or curve. The number to add, in [−255, 255].
        threshold: number, (low, high) or curve, default 128. The value below which values are changed, in [0, 256].

    Raises:
        ConfigurationError: the addend or the threshold is outside its bounds.

    Examples:
        >>> transforms = [SolarizeAdd((0, 110))]
    """

    addend: Range = field(metadata=checked(check_pixel_range, -255, 255))
    _: KW_ONLY
    threshold: Range = field(default=128, metadata=checked(check_pixel_range, 0, 256))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table."""
        return [
            to.solarize_add(draw_range(self.addend, rng, clip.length), draw_range(self.threshold, rng, clip.length))
        ]


@dataclass(frozen=True)
class AutoContrast(PixelTransform):
    """Stretch each channel from 0 to 255 (Pillow's ``ImageOps.autocontrast``).

    Args:
        per_frame: bool, default False. Whether each frame is stretched by its own range, which may flicker.

    Examples:
        >>> transforms = [AutoContrast()]
    """

    _: KW_ONLY
    per_frame: bool = False

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table that follows from the pixels."""
        return [to.auto_contrast(per_frame=self.per_frame)]


@dataclass(frozen=True)
class Equalize(PixelTransform):
    """Make each channel's histogram flat (Pillow's ``ImageOps.equalize``).

    Args:
        per_frame: bool, default False. Whether each frame has its own histogram, which may flicker.

    Examples:
        >>> transforms = [Equalize()]
    """

    _: KW_ONLY
    per_frame: bool = False

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one table that follows from the pixels."""
        return [to.equalize(per_frame=self.per_frame)]


@dataclass(frozen=True)
class Sharpness(ByFactor):
    """Move values away from or towards the 3×3 mean around them (Pillow's ``ImageEnhance.Sharpness``).

    Args:
        factor: number, (low, high) or curve. At least 0: 0 smooths, 1 changes nothing, 2 sharpens.

    Raises:
        ConfigurationError: the factor is below 0.

    Examples:
        >>> transforms = [Sharpness((0.5, 2))]
    """

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return one sharpening."""
        return [to.sharpness(draw_range(self.factor, rng, clip.length))]
