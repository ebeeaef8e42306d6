"""What all loaders ask of their arguments: the plan of the transforms, one view, allowed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch

from videoloader.convert import Color, fill_color
from videoloader.errors import ConfigurationError, check_choice
from videoloader.transforms.planning.pipeline import TransformPlan, Transforms, arrange_transforms

DType = Literal["uint8", "float16", "bfloat16", "float32"]
RaiseOrSkip = Literal["raise", "skip"]


def plan_transforms(
    transforms: Transforms, dtype: DType | torch.dtype, color: Color, fill_value: float | Sequence[float]
) -> TransformPlan:
    """How the frames that a loader is asked for are made.

    Args:
        transforms: see ``arrange_transforms``.
        dtype: PyTorch's own or its name.
        color, fill_value: see ``VideoLoader``.

    Raises:
        ConfigurationError: an argument has no such value, or they do not go together; see ``arrange_transforms``.
    """
    if isinstance(dtype, str):
        check_choice("dtype", dtype, get_args(DType))
    kind: torch.dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return arrange_transforms(transforms, kind, color, fill_color(fill_value))


def one_view(transforms: TransformPlan) -> TransformPlan:
    """The same, unless it makes several views of a clip, which then is a ConfigurationError."""
    if transforms.mixing is not None:
        raise ConfigurationError("clips are mixed by loaders of batches only, not where each has a place of its own")
    if transforms.views > 1:
        raise ConfigurationError(f"the transforms make {transforms.views} views of a clip, but it has one place only")
    return transforms
