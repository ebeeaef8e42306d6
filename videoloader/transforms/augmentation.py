"""Custom operations, for automatic policies or as transforms by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import array_of, check, check_integer
from videoloader.errors.short_text import short_text
from videoloader.transforms.operations import BatchFunction, ClipInfo, Function, Operation, Params, PixelTransform
from videoloader.transforms.policies import Strength


@dataclass(frozen=True)
class Augmentation:
    """A custom operation on all clips of a batch that draw it; ``augmentation`` makes it from a function.

    Attributes:
        function: function. The decorated function.
        strength: ``Strength`` or None. The magnitudes; None if the operation has none.
        to_param, draws, geometric: as in ``augmentation``.
    """

    function: Function
    strength: Strength | None
    to_param: Callable[[float], npt.ArrayLike] | None
    draws: int
    geometric: Function | None

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    def __call__(self, frames: torch.Tensor, params: Params) -> torch.Tensor:
        """Apply the operation; ``augmentation`` describes the function's arguments and result.

        Raises:
            ConfigurationError: the function's result has another shape or type than the frames.
        """
        shape, dtype = frames.shape, frames.dtype
        changed = self.function(frames, params)
        if not isinstance(changed, torch.Tensor) or changed.shape != shape or changed.dtype != dtype:
            kind = f"{changed.dtype}{list(changed.shape)}" if isinstance(changed, torch.Tensor) else repr(changed)
            raise ConfigurationError(f"the augmentation {self.name} makes {kind} of frames {dtype}{list(shape)}")
        return changed

    def at(self, magnitude: float | None = None) -> AugmentationAt:
        """A transform that applies the operation at one magnitude.

        Args:
            magnitude: float or None, default None. One of the operation's magnitudes; it is negated for half of the
                clips if the operation is signed. None is for an operation without magnitudes.

        Raises:
            ConfigurationError: the magnitude is outside the operation's range.
        """
        return AugmentationAt(self, magnitude)

    def operation(self, magnitude: float | None, rng: np.random.Generator) -> BatchFunction:
        """The operation on one clip.

        Args:
            magnitude: float or None. The magnitude with its sign; None for an operation without magnitudes.
            rng: the clip's own generator.
        """
        params: dict[str, npt.NDArray[Any]] = {}
        if magnitude is not None:
            param = array_of(given := magnitude if self.to_param is None else self.to_param(magnitude))
            if param is None or param.dtype.kind not in "biuf":
                wanted = "a number or an array of numbers"
                raise ConfigurationError(f"to_param of {self!r} must give {wanted}, got {short_text(given)}")
            params["param"] = param
        if self.draws:
            params["random"] = rng.random(self.draws)
        return BatchFunction(self, params, self.geometric)

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        # The function's name now refers to this object, so pickle would refuse the function itself.
        return resolve_name, (f"{self.function.__module__}:{self.function.__qualname__}",)


@dataclass(frozen=True)
class AugmentationAt(PixelTransform):
    """A transform made by ``Augmentation.at``."""

    augmentation: Augmentation
    magnitude: float | None = None

    def __post_init__(self) -> None:
        strength, name = self.augmentation.strength, self.augmentation.name
        if strength is None:
            check(f"{name}'s magnitude", self.magnitude, self.magnitude is None, "None, as it has none")
            return
        low, high = sorted(strength[:2])
        inside = isinstance(self.magnitude, int | float) and low <= self.magnitude <= high
        check(f"{name}'s magnitude", self.magnitude, inside, f"in [{low:g}, {high:g}]")

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Operation]:
        """Return the function with its parameters."""
        magnitude, strength = self.magnitude, self.augmentation.strength
        if magnitude is not None and strength is not None and strength.signed and rng.random() < 0.5:
            magnitude = -magnitude
        return [self.augmentation.operation(magnitude, rng)]


@tells_of_arguments
def augmentation(
    *,
    magnitudes: tuple[float, float] | None = None,
    signed: bool = False,
    to_param: Callable[[float], npt.ArrayLike] | None = None,
    draws: int = 0,
    geometric: Function | None = None,
) -> Callable[[Function], Augmentation]:
    """Make an operation for automatic policies from a function on batches.

    The function gets ``frames`` and ``params``. ``frames`` is uint8[n, T, 3, H, W] on the batch's device: the n clips
    of a batch that draw the operation. ``params`` is a mapping of numpy arrays: ``"param"``, [n, ...], holds the result
    of ``to_param`` for each clip's magnitude, and ``"random"`` is float64[n, draws]. The function returns frames of the
    same shape and type, and may change its input. It must not draw random numbers itself, since clips could then not be
    reproduced.

    Args:
        magnitudes: (float, float) or None, default None. The magnitudes of the first and the last bin; None if the
            operation has no strength.
        signed: bool, default False. Whether magnitudes are negated for half of the clips.
        to_param: function, default None: the magnitude itself. It turns a magnitude into the function's parameter, a
            number or an array of fixed shape.
        draws: int, default 0. The number of random numbers in [0, 1) that the function needs for each clip.
        geometric: function, default None: pixels stay where they are. It replaces the function for masks, and must only
            move pixels.

    Raises:
        ConfigurationError: ``magnitudes`` are not two finite numbers, ``signed`` is given without magnitudes, or
            ``draws`` is not an integer of at least 0.

    Examples:
        Cutout (DeVries and Taylor, arXiv 1708.04552): a gray square at a random place, its side a share of the shorter
        edge:

            >>> @augmentation(magnitudes=(0, 0.5), draws=2)
            ... def cutout(frames, params):
            ...     height, width = frames.shape[-2:]
            ...     side = torch.tensor(params["param"], device=frames.device)[:, None] * min(height, width)
            ...     down, across = torch.tensor(params["random"], device=frames.device).T[:, :, None]
            ...     rows = (torch.arange(height, device=frames.device) + 0.5 - down * height).abs() < side / 2
            ...     columns = (torch.arange(width, device=frames.device) + 0.5 - across * width).abs() < side / 2
            ...     hole = rows[:, None, None, :, None] & columns[:, None, None, None, :]
            ...     return frames.masked_fill(hole, 128)
            >>> from videoloader.transforms.policies import DEFAULT_OPERATIONS
            >>> transforms = [RandAugment(n=2, m=9, operations=[*DEFAULT_OPERATIONS, cutout])]
            >>> transforms = [cutout.at(0.25)]
    """
    if magnitudes is None:
        if signed or to_param is not None:
            raise ConfigurationError("an augmentation without magnitudes can have neither a sign nor to_param")
        strength = None
    else:
        try:
            low, high = (float(each) for each in magnitudes)
        except (TypeError, ValueError, OverflowError):
            low = high = math.nan
        is_finite = math.isfinite(low) and math.isfinite(high)
        check("an augmentation's magnitudes", magnitudes, is_finite, "two finite numbers")
        strength = Strength(low, high, signed)
    check_integer("an augmentation's draws", draws, 0)

    return lambda function: Augmentation(function, strength, to_param, draws, geometric)
