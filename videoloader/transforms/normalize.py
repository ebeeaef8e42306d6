"""Pixel values as floats, normalised or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from videoloader.errors import ConfigurationError, check_choice
from videoloader.transforms.operations import Transform, checked

FloatType: TypeAlias = Literal["float32", "float16", "bfloat16"]
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Normalize(Transform):
    """Subtract a mean and divide by a standard deviation, per channel, of values in [0, 1].

    Args:
        mean, std: for R, G, B. The defaults are those of ImageNet, in general use since torchvision's models.

    Raises:
        ConfigurationError: not three values, or a standard deviation that is not positive.
    """

    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        if len(self.mean) != 3 or len(self.std) != 3:
            raise ConfigurationError(f"Normalize needs three means and deviations, not {self.mean} and {self.std}")
        if min(self.std) <= 0:
            raise ConfigurationError(f"Normalize needs positive deviations, not {self.std}")


@dataclass(frozen=True)
class ToFloat(Transform):
    """Give values in [0, 1] instead of 0 … 255.

    Args:
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``.

    Raises:
        ConfigurationError: another dtype.
    """

    dtype: FloatType = field(default="float32", metadata=checked(check_choice, get_args(FloatType)))
