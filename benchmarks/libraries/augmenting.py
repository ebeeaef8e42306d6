"""The batch that all libraries augment, and how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from libraries.common import LENGTH, SIDE

CLIPS = 32
OPERATIONS, MAGNITUDE = 2, 9
# ImageNet's, of values in [0, 1].
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# So many batches are started before the GPU is waited for.
_AT_ONCE = 8


def clips(layout: str = "TCHW") -> torch.Tensor:
    """uint8 on the GPU: [B, T, 3, H, W], or [B, T, H, W, 3]: smooth shapes with some noise, as photographs have."""
    generator = torch.Generator("cuda").manual_seed(0)
    steps = torch.arange(SIDE, device="cuda")
    waves = torch.sin(steps / 20)[:, None] + torch.sin(steps / 31 + 1)
    shape = (CLIPS, LENGTH, 3, SIDE, SIDE)
    noise = torch.randn(shape, device="cuda", generator=generator, dtype=torch.float16)
    shifts = torch.rand(shape[:3], device="cuda", generator=generator)[..., None, None]
    frames = (110 + 50 * waves + 40 * shifts + 6 * noise).clamp(0, 255).byte()
    return frames if layout == "TCHW" else frames.permute(0, 1, 3, 4, 2).contiguous()


def check_batch(frames: Any) -> None:
    """Nobody is to win with another output."""
    if tuple(frames.shape) != (CLIPS, LENGTH, 3, SIDE, SIDE) or frames.dtype != torch.float32:
        raise ValueError(f"a batch came out as {tuple(frames.shape)} {frames.dtype}")


def milliseconds_a_batch(step: Callable[[], Any], seconds: float, warmup: float) -> dict[str, float]:
    """Time of a batch where one follows the other (``ms``), and of one that is waited for (``alone``)."""
    end = time.perf_counter() + warmup
    while True:
        step()
        torch.cuda.synchronize()
        if time.perf_counter() >= end:
            break
    figures = {}
    for name, at_once in (("ms", _AT_ONCE), ("alone", 1)):
        count, start = 0, time.perf_counter()
        while (now := time.perf_counter()) < start + seconds / 2:
            for _ in range(at_once):
                step()
            torch.cuda.synchronize()
            count += at_once
        figures[name] = 1000 * (now - start) / count
    return figures
