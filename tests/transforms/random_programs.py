"""Operations with random parameters, and clips to try them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.transforms.operations import (
    BatchFunction,
    ColorMatrix,
    Erase,
    HueShift,
    Operation,
    Sharpen,
    StatisticTable,
    Table,
    Warp,
)

KINDS = (
    "table", "contrast", "auto_contrast", "equalize", "matrix", "hue", "sharpen", "nearest", "bilinear", "bicubic",
    "erase", "function",
)  # fmt: skip


def noise(clips: int, length: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """uint8[B, T, 3, H, W] of random numbers."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (clips, length, 3, height, width), np.uint8))


def photos(clips: int, length: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """uint8[B, T, 3, H, W] of smooth shapes of few colours with a little noise, none of them black or white."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / max(height, width)
    shape = (clips, length, 3, 1, 1)
    waves = np.sin(rng.uniform(2, 9, shape) * x + rng.uniform(2, 9, shape) * y + rng.uniform(0, 6, shape))
    values = 120 + 70 * waves + 25 * (x > y) + rng.normal(0, 3, (*shape[:3], height, width))
    return torch.from_numpy(np.clip(values, 20, 235).astype(np.uint8))


def rotation(height: int, width: int, degrees: float) -> npt.NDArray[np.float64]:
    """float64[3, 3] that turns the picture about its centre, clockwise."""
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    turn = np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])
    center = np.array([[1, 0, width / 2], [0, 1, height / 2], [0, 0, 1]])
    return center @ turn @ np.linalg.inv(center)


def complement_and_add(frames: torch.Tensor, params: Mapping[str, npt.NDArray[Any]]) -> torch.Tensor:
    """A function of a batch that changes it in place."""
    amounts = torch.from_numpy(params["amount"]).to(frames.device, non_blocking=True)
    return frames.bitwise_not_().add_(amounts[:, None, None, None, None])


def random_operation(
    rng: np.random.Generator, kind: str, length: int, size: tuple[int, int], per_frame: bool
) -> Operation:
    """One operation that keeps the size of frames.

    Args:
        rng: for its parameters.
        kind: of KINDS.
        length: T.
        size: (height, width).
        per_frame: whether there is a row for each frame.
    """
    rows, (height, width) = length if per_frame else 1, size
    if kind == "table":
        return Table(rng.integers(0, 256, (rows, 3, 256), np.uint8))
    if kind in ("contrast", "auto_contrast", "equalize"):
        return StatisticTable(kind, rng.uniform(0, 2, rows).astype(np.float32), bool(rng.random() < 0.5))  # type: ignore[arg-type]
    if kind == "matrix":
        return ColorMatrix((rng.normal(0, 0.6, (rows, 3, 4)) * [1, 1, 1, 60]).astype(np.float32))
    if kind == "hue":
        return HueShift(rng.uniform(-1.5, 1.5, rows).astype(np.float32))
    if kind == "sharpen":
        return Sharpen(rng.uniform(0, 3, rows).astype(np.float32))
    if kind in ("nearest", "bilinear", "bicubic"):
        matrix = np.stack([rotation(height, width, rng.uniform(-180, 180)) for _ in range(rows)])
        matrix[:, :2, :2] *= rng.uniform(0.5, 1.5)
        if rng.random() < 0.5:
            matrix[:, 2, :2] = rng.uniform(-0.02, 0.02, 2)
        samples = (int(rng.integers(1, 3)), int(rng.integers(1, 4)))
        fill = tuple(rng.uniform(0, 255, 3))
        return Warp(matrix, size, kind, fill, samples, extend=bool(rng.random() < 0.3))  # type: ignore[arg-type]
    if kind == "erase":
        corners = rng.integers(0, size, (rows, int(rng.integers(0, 4)), 2))
        return Erase(
            np.concatenate([corners, rng.integers(0, np.array(size) - corners + 1)], 2).astype(np.int32),
            tuple(rng.uniform(0, 255, 3)),
        )
    return BatchFunction(complement_and_add, {"amount": rng.integers(0, 9, dtype=np.uint8)})


def random_programs(seed: int, clips: int, length: int, size: tuple[int, int], most: int = 4) -> list[list[Operation]]:
    """For each clip up to so many operations of any kind."""
    rng = np.random.default_rng(seed)
    return [
        [
            random_operation(rng, str(rng.choice(KINDS)), length, size, bool(rng.random() < 0.4))
            for _ in range(rng.integers(0, most + 1))
        ]
        for _ in range(clips)
    ]
