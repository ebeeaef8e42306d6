"""torchvision's transforms v2, on the GPU."""

from __future__ import annotations

import torch
from torchvision.transforms import InterpolationMode, v2

from libraries.augmenting import MAGNITUDE, MEAN, OPERATIONS, STD, check_batch, clips, milliseconds_a_batch


def rand_augment(_: list[str], seconds: float, warmup: float, normalize: str, interpolation: str) -> dict[str, float]:
    """RandAugment clip by clip, since it draws once a call; the rest clip by clip or for all at once."""
    frames = clips()
    augment = v2.RandAugment(OPERATIONS, MAGNITUDE, interpolation=InterpolationMode(interpolation))
    finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def step() -> torch.Tensor:
        if normalize == "batch":
            return finish(torch.stack([augment(clip) for clip in frames]))
        return torch.stack([finish(augment(clip)) for clip in frames])

    check_batch(step())
    return milliseconds_a_batch(step, seconds, warmup)
