"""videoloader's transforms of pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from libraries.augmenting import CLIPS, MAGNITUDE, MEAN, OPERATIONS, STD, check_batch, clips, milliseconds_a_batch
from libraries.common import LENGTH, SIDE
from videoloader.convert.spec import OutputSpec
from videoloader.transforms.automatic import RandAugment
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.color import ColorJitter
from videoloader.transforms.operations import ClipInfo, Erase, Operation, PixelTransform


class _RandomErasing(PixelTransform):
    """Zhong et al., "Random Erasing Data Augmentation", arXiv 1708.04896: one box in a quarter of the clips."""

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> Sequence[Operation]:
        if rng.random() >= 0.25:
            return ()
        height, width = rng.integers(SIDE // 8, SIDE // 2, 2)
        top, left = rng.integers(SIDE - height), rng.integers(SIDE - width)
        return (Erase(np.array([[[top, left, height, width]]], np.int32), (128.0, 128.0, 128.0)),)


def rand_augment(_: list[str], seconds: float, warmup: float) -> dict[str, float]:
    """RandAugment and Normalize, drawing included."""
    return _measure((RandAugment(OPERATIONS, MAGNITUDE),), seconds, warmup)


def recipe(_: list[str], seconds: float, warmup: float, color: str) -> dict[str, float]:
    """What a usual recipe adds to decoding, in which RandomResizedCrop and the flip are done."""
    jitter = RandAugment(OPERATIONS, MAGNITUDE) if color == "RandAugment" else ColorJitter(0.4, 0.4, 0.4, 0.1)
    return _measure((jitter, _RandomErasing()), seconds, warmup)


def _measure(transforms: Sequence[PixelTransform], seconds: float, warmup: float) -> dict[str, float]:
    frames, rng = clips(), np.random.default_rng(0)
    output, info = OutputSpec(torch.float32, MEAN, STD), ClipInfo(LENGTH, SIDE, SIDE)

    def step() -> torch.Tensor:
        programs = [[each for one in transforms for each in one.draw(rng, info)] for _ in range(CLIPS)]
        return apply_operations(frames, programs, output)

    check_batch(step())
    return milliseconds_a_batch(step, seconds, warmup)
