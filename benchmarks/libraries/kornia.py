"""Kornia's augmentations."""

from __future__ import annotations

import torch
from kornia.augmentation.auto import RandAugment
from kornia.enhance import Normalize

from libraries.augmenting import MAGNITUDE, MEAN, OPERATIONS, STD, check_batch, clips, milliseconds_a_batch


def rand_augment(_: list[str], seconds: float, warmup: float, choice: str) -> dict[str, float]:
    """RandAugment, which chooses once a call and draws signs for each frame; ``VideoSequential`` does not take it.

    Args:
        choice: ``"clip"`` calls it for each clip; ``"batch"`` once, so that all clips get the same operations.
    """
    frames = clips()
    augment = RandAugment(OPERATIONS, MAGNITUDE, transformation_matrix_mode="skip")
    normalize = Normalize(torch.tensor(MEAN), torch.tensor(STD)).cuda()

    def step() -> torch.Tensor:
        values = frames.float().div_(255)
        if choice == "batch":
            return normalize(augment(values.flatten(0, 1))).view(values.shape)
        augmented = torch.stack([augment(clip) for clip in values])
        return normalize(augmented.flatten(0, 1)).view(values.shape)

    with torch.inference_mode():
        check_batch(step())
        return milliseconds_a_batch(step, seconds, warmup)
