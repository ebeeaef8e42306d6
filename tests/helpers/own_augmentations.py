"""Custom operations made with the decorator ``augmentation``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.transforms.augmentation import augmentation

Params = Mapping[str, npt.NDArray[Any]]


@augmentation(magnitudes=(0, 0.5), draws=2)
def cutout(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Cutout (DeVries and Taylor, arXiv 1708.04552): a gray square whose side is a share of the shorter edge."""
    height, width = frames.shape[-2:]
    side = torch.tensor(params["param"], device=frames.device)[:, None] * min(height, width)
    down, across = torch.tensor(params["random"], device=frames.device).T[:, :, None]
    rows = (torch.arange(height, device=frames.device) + 0.5 - down * height).abs() < side / 2
    columns = (torch.arange(width, device=frames.device) + 0.5 - across * width).abs() < side / 2
    hole = rows[:, None, None, :, None] & columns[:, None, None, None, :]
    return frames.masked_fill(hole, 128)


def channel_gains(magnitude: float) -> npt.NDArray[np.float64]:
    return np.array([1 + magnitude, 1, 1 - magnitude])


@augmentation(magnitudes=(0.1, 0.4), signed=True, to_param=channel_gains)
def warmth(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Add red and remove blue, or the reverse."""
    gains = torch.tensor(params["param"], device=frames.device)[:, None, :, None, None]
    return (frames * gains + 0.5).clamp(0, 255).to(torch.uint8)


@augmentation()
def swap(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Swap red and blue."""
    assert not params
    return frames.flip(2)
