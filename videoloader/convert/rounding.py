"""Round values to whole numbers: to the nearest, halves up. Native code and CUDA round by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def to_uint8(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return an array of 0 … 255 as uint8. For native code and CUDA ``conversion_plan`` adds the half."""
    rounded: npt.NDArray[np.uint8] = (values + np.float32(0.5)).astype(np.uint8)
    return rounded


def round_to(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of floats as another dtype: integers are rounded, and clamped to its range.

    The floats may be overwritten.
    """
    if dtype.is_floating_point:
        return values.to(dtype)
    if dtype == torch.bool:
        return values >= 0.5
    limits = torch.iinfo(dtype)
    raised = values.clamp_(limits.min, limits.max).add_(0.5)
    return (raised.floor_() if limits.min else raised).to(dtype)
