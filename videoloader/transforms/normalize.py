"""Converts pixel values to floats, normalised or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy.typing as npt
import torch

from videoloader.errors import ConfigurationError, warn_user
from videoloader.errors.checks import check, check_choice
from videoloader.transforms.operations import Transform, checked

DType: TypeAlias = Literal["uint8", "float16", "bfloat16", "float32"]
FloatType: TypeAlias = Literal["float32", "float16", "bfloat16"]
Three: TypeAlias = "Sequence[float] | npt.NDArray[Any] | torch.Tensor"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Normalize(Transform):
    """Normalise each channel of values in [0, 1]: subtract a mean and divide by a standard deviation.

    Args:
        mean, std: (float, float, float), default those of ImageNet, as in torchvision's models. The numbers for R, G
            and B.

    Raises:
        ConfigurationError: there are not three numbers, a mean or standard deviation is above 1, or a standard
            deviation is not positive.
    """

    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    if TYPE_CHECKING:  # arguments may have more types than the fields

        def __init__(self, mean: Three = IMAGENET_MEAN, std: Three = IMAGENET_STD) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, three in (("mean", self.mean), ("std", self.std)):
            are_three = isinstance(three, tuple) and len(three) == 3 and all(isinstance(each, Real) for each in three)
            check(f"Normalize's {name}", three, are_three, "three numbers, for R, G and B")
            inside = all(each <= 1 for each in three)  # NaN is not
            check(f"Normalize's {name}", three, inside, "three values in [0, 1]", ": divide both by 255")
        check("Normalize's std", self.std, min(self.std) > 0, "three positive numbers")
        if not _is_of_pixels(self.mean, self.std) and _is_of_pixels(self.std, self.mean):
            warn_user(f"Normalize's mean and std seem to be swapped, got mean={self.mean}, std={self.std}")


def _is_of_pixels(mean: Sequence[float], std: Sequence[float]) -> bool:
    """Whether values in (0, 1) can have these means and deviations: a deviation is at most sqrt(mean · (1 - mean))."""
    return all(0 < middle < 1 and 0 < each**2 <= middle * (1 - middle) for middle, each in zip(mean, std, strict=True))


@dataclass(frozen=True)
class ToFloat(Transform):
    """Convert values to floats in [0, 1] instead of 0 … 255.

    Args:
        dtype: str, default ``"float32"``. ``"float32"``, ``"float16"`` or ``"bfloat16"``.

    Raises:
        ConfigurationError: there is no such float type.
    """

    dtype: FloatType = field(default="float32", metadata=checked(check_choice, get_args(FloatType)))


def output_dtype(dtype: DType | torch.dtype | None, to_float: Normalize | ToFloat | None) -> torch.dtype:
    """The dtype of the output pixels.

    Args:
        dtype: PyTorch's or NumPy's dtype, or its name. None means the dtype that the transforms make.
        to_float: the transform that makes floats; None without one.

    Raises:
        ConfigurationError: there is no such dtype, or the transform makes a different one.
    """
    made = to_float.dtype if isinstance(to_float, ToFloat) else "float32" if to_float else "uint8"
    # NumPy's scalar classes have ``__name__``; its dtypes print as their name.
    name = made if dtype is None else getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    check_choice("dtype", name, get_args(DType))
    if (isinstance(to_float, Normalize) and name == "uint8") or (isinstance(to_float, ToFloat) and name != made):
        raise ConfigurationError(f"{type(to_float).__name__} makes {made}, but dtype is {name}: leave dtype out")
    wanted: torch.dtype = getattr(torch, name)
    return wanted
