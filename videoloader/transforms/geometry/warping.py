"""``Warp`` on tensors of any type and number of channels, in torch, wherever they are: masks, flow, depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from videoloader.convert import Interpolation
from videoloader.transforms.geometry.tensor_geometry import round_to
from videoloader.transforms.operations import Warp


def warp_tensor(
    frames: torch.Tensor, warp: Warp, interpolation: Interpolation | None = None, fill: Sequence[float] | None = None
) -> torch.Tensor:
    """Resample frames as a warp says.

    Args:
        frames: [T, C, H, W] of any number type.
        warp: with one matrix, or T.
        interpolation: in place of the warp's.
        fill: one value for each channel, or one for all, in place of the warp's.

    Returns:
        [T, C, *warp.size] of the same type: values of integers are rounded to nearest, halves up, and clamped to what
        the type holds.
    """
    interpolation = interpolation or warp.interpolation
    values = torch.as_tensor(warp.fill if fill is None else fill, dtype=torch.float64, device=frames.device)
    values = values.expand(frames.shape[1])
    samples = warp.samples if interpolation != "nearest" else (1, 1)
    parts = [frames] if len(warp.matrix) == 1 else [frame[None] for frame in frames]
    results = []
    for part, matrix in zip(parts, warp.matrix, strict=True):
        points = list(_points(matrix, warp.size, samples, frames.device))
        if interpolation == "nearest":
            (point,) = points
            results.append(_nearest(part, point, values, warp.extend))
            continue
        sampled = [_interpolated(part, point, values, interpolation, warp.extend) for point in points]
        results.append(round_to(torch.stack(sampled).mean(0) if len(sampled) > 1 else sampled[0], frames.dtype))
    return torch.cat(results)


def _points(
    matrix: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    size: tuple[int, int],
    samples: tuple[int, int],
    device: torch.device,
) -> Iterator[torch.Tensor]:
    """For each sample of a pixel, where it lies in the input: float64[2, h, w], x and y."""
    rows, columns = (torch.arange(length, dtype=torch.float64, device=device) for length in size)
    m = matrix.tolist()
    for i, j in np.ndindex(*samples):
        x, y = columns + (j + 0.5) / samples[1], (rows + (i + 0.5) / samples[0])[:, None]
        u, v, w = (row[0] * x + row[1] * y + row[2] for row in m)
        point = torch.stack([u / w, v / w])
        # What is no number lies outside, and no number is too large for an integer.
        yield torch.nan_to_num(point, nan=-1e6).clamp(-1e6, 1e6)


def _taps(frames: torch.Tensor, x: torch.Tensor, y: torch.Tensor, fill: torch.Tensor, extend: bool) -> torch.Tensor:
    """[T, C, h, w]: the pixels at whole places int64[h, w]."""
    height, width = frames.shape[2:]
    inside_x, inside_y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    values = frames[:, :, inside_y, inside_x]
    if extend:
        return values
    outside = (inside_x != x) | (inside_y != y)
    return torch.where(outside, fill.to(frames.dtype)[None, :, None, None], values)


def _nearest(frames: torch.Tensor, point: torch.Tensor, fill: torch.Tensor, extend: bool) -> torch.Tensor:
    x, y = point.floor().to(torch.int64)
    return _taps(frames, x, y, fill, extend)


def _interpolated(
    frames: torch.Tensor, point: torch.Tensor, fill: torch.Tensor, interpolation: Interpolation, extend: bool
) -> torch.Tensor:
    """Of float32, or float64 for frames of that."""
    frames = frames.to(torch.promote_types(frames.dtype, torch.float32))
    first = (point - 0.5).floor()
    x, y = first.to(torch.int64)
    right, below = (point - 0.5 - first).to(frames.dtype)
    weights_x, weights_y = (_weights(offset, interpolation) for offset in (right, below))
    start = 1 - len(weights_x) // 2
    result = torch.zeros((), dtype=frames.dtype, device=frames.device)
    for row, weight_y in enumerate(weights_y, start):
        line = torch.zeros((), dtype=frames.dtype, device=frames.device)
        for column, weight_x in enumerate(weights_x, start):
            line = line + _taps(frames, x + column, y + row, fill, extend) * weight_x
        result = result + line * weight_y
    return result


def _weights(offset: torch.Tensor, interpolation: Interpolation) -> list[torch.Tensor]:
    """Of the two or four pixels around a point that lies ``offset`` after the middle of the one before it."""
    if interpolation == "bilinear":
        return [1 - offset, offset]
    # Keys, "Cubic convolution interpolation for digital image processing" (1981), as PyTorch's grid_sample has it.
    a = -0.75
    far = [((distance - 5) * distance + 8) * distance * a - 4 * a for distance in (offset + 1, 2 - offset)]
    near = [((a + 2) * distance - (a + 3)) * distance * distance + 1 for distance in (offset, 1 - offset)]
    return [far[0], near[0], near[1], far[1]]
