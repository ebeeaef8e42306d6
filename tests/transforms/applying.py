"""Transforms applied to clips without a loader, operations with boxes and matrices by their plain definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from videoloader.transforms.operations import BatchFunction, ClipInfo, ColorMatrix, Erase, Operation, PixelTransform

Frames = npt.NDArray[np.uint8]


def painted(seed: int = 0, clips: int = 2, length: int = 3, height: int = 20, width: int = 27) -> torch.Tensor:
    """uint8[N, T, 3, H, W] of smooth colours with some noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    phase = rng.random((clips, length, 3, 1, 1)) * 6
    values = (
        128 + 90 * np.sin(x / 7 + phase) * np.cos(y / 5 - phase) + rng.normal(0, 12, (*phase.shape[:3], height, width))
    )
    return torch.from_numpy(values.clip(0, 255).astype(np.uint8))


def info(frames: torch.Tensor) -> ClipInfo:
    """What a transform is told of each of these clips."""
    return ClipInfo(frames.shape[1], frames.shape[3], frames.shape[4])


def together(operations: Sequence[BatchFunction], frames: torch.Tensor) -> torch.Tensor:
    """One function for all clips, each with its own parameters."""
    (function,) = {operation.function for operation in operations}
    params = {name: np.stack([operation.params[name] for operation in operations]) for name in operations[0].params}
    return function(frames.clone(), params)


def one_by_one(operations: Sequence[Operation], frames: torch.Tensor) -> torch.Tensor:
    """The operations of one clip, [1, T, 3, H, W]."""
    for operation in operations:
        if isinstance(operation, BatchFunction):
            frames = together([operation], frames)
        elif isinstance(operation, Erase):
            frames = torch.from_numpy(_erased(frames.numpy().copy(), operation))
        else:
            assert isinstance(operation, ColorMatrix)
            (matrix,) = operation.matrix
            values = np.einsum("ij,ntjhw->ntihw", matrix[:, :3], frames.numpy()) + matrix[:, 3, None, None]
            frames = torch.from_numpy(np.floor(values + 0.5).clip(0, 255).astype(np.uint8))
    return frames


def apply(transform: PixelTransform, frames: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """The transform on each clip by itself, with a generator of its own."""
    clips = [
        one_by_one(transform.draw(np.random.default_rng([seed, number]), info(frames)), clip[None])
        for number, clip in enumerate(frames)
    ]
    return torch.cat(clips)


def _erased(frames: Frames, erase: Erase) -> Frames:
    boxes = np.broadcast_to(erase.boxes, (frames.shape[1], *erase.boxes.shape[1:]))
    for time, of_frame in enumerate(boxes):
        for top, left, height, width in of_frame:
            assert 0 <= top <= top + height <= frames.shape[3]
            assert 0 <= left <= left + width <= frames.shape[4]
            frames[:, time, :, top : top + height, left : left + width] = np.array(erase.fill)[:, None, None]
    return frames
