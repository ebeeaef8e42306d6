"""A slow reference for operations, one frame and one rule at a time, written only from their definitions."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from videoloader.transforms.operations import (
    BatchFunction,
    ColorMatrix,
    HueShift,
    Operation,
    Sharpen,
    StatisticTable,
    Table,
    Warp,
)

Frames = npt.NDArray[np.uint8]


def carry_out(operations: Sequence[Operation], frames: Frames) -> Frames:
    """The frames, uint8[T, 3, H, W], after all operations."""
    for operation in operations:
        if isinstance(operation, BatchFunction):
            params = {name: value[None] for name, value in operation.params.items()}
            frames = operation.function(torch.from_numpy(frames.copy())[None], params)[0].numpy()
        elif isinstance(operation, StatisticTable):
            groups = [frame[None] for frame in frames] if operation.per_frame else [frames] * len(frames)
            frames = np.stack(
                [_statistic(operation, _of(operation.factor, t), groups[t], frames[t]) for t in range(len(frames))]
            )
        else:
            frames = np.stack([_frame(operation, t, frame) for t, frame in enumerate(frames)])
    return frames


def _of(rows: npt.NDArray[np.generic], t: int) -> npt.NDArray[np.generic]:
    """The row for frame t, from one row for the clip or one for each frame."""
    assert len(rows) == 1 or t < len(rows)
    return rows[t if len(rows) > 1 else 0]


def _rounded(values: npt.NDArray[np.floating]) -> Frames:
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)


def _frame(operation: Operation, t: int, frame: Frames) -> Frames:
    pixels = frame.astype(np.float64)
    if isinstance(operation, Table):
        assert operation.values.dtype == np.uint8
        table = _of(operation.values, t)
        return np.stack([table[channel][frame[channel]] for channel in range(3)])
    if isinstance(operation, ColorMatrix):
        assert operation.matrix.dtype == np.float32
        matrix = _of(operation.matrix, t).astype(np.float64)
        return _rounded(np.einsum("oc,chw->ohw", matrix[:, :3], pixels) + matrix[:, 3, None, None])
    if isinstance(operation, HueShift):
        turns = float(_of(operation.turns, t))
        flat = (pixels / 255).reshape(3, -1).T
        shifted = []
        for red, green, blue in flat:
            hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
            shifted.append(colorsys.hsv_to_rgb((hue + turns) % 1, saturation, value))
        return _rounded(np.array(shifted).T.reshape(frame.shape) * 255)
    if isinstance(operation, Sharpen):
        smooth = pixels.copy()
        for y in range(1, frame.shape[1] - 1):
            for x in range(1, frame.shape[2] - 1):
                around = pixels[:, y - 1 : y + 2, x - 1 : x + 2].sum((1, 2))
                smooth[:, y, x] = np.floor((around + 4 * pixels[:, y, x]) / 13 + 0.5)
        return _rounded(smooth + float(_of(operation.factor, t)) * (pixels - smooth))
    assert isinstance(operation, Warp)
    return _warped(operation, _of(operation.matrix, t), pixels)


def _statistic(operation: StatisticTable, factor: npt.NDArray[np.generic], group: Frames, frame: Frames) -> Frames:
    if operation.statistic == "contrast":
        red, green, blue = group.astype(np.int64).transpose(1, 0, 2, 3)
        mean = ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).mean()
        return _rounded(mean + float(factor) * (frame - mean))
    changed = []
    for values, channel in zip(group.transpose(1, 0, 2, 3), frame, strict=True):
        histogram = np.bincount(values.ravel(), minlength=256)
        used = np.flatnonzero(histogram)
        table = np.arange(256)
        if operation.statistic == "auto_contrast" and len(used) > 1:
            table = _rounded((table - used[0]) * 255 / (used[-1] - used[0]))
        elif operation.statistic == "equalize":
            step = (values.size - histogram[used[-1]]) // 255
            if step:
                below = np.cumsum(histogram) - histogram
                table = np.minimum((below + step // 2) // step, 255)
        changed.append(table[channel])
    return np.stack(changed).astype(np.uint8)


def _warped(warp: Warp, matrix: npt.NDArray[np.generic], pixels: npt.NDArray[np.float64]) -> Frames:
    assert matrix.dtype == np.float64
    _, rows, columns = pixels.shape
    padded = np.empty((3, rows + 2, columns + 2))
    padded[:] = np.array(warp.fill)[:, None, None]
    padded[:, 1:-1, 1:-1] = pixels

    def pixel(y: int, x: int) -> npt.NDArray[np.float64]:
        return padded[:, min(max(y, -1), rows) + 1, min(max(x, -1), columns) + 1]

    output = np.empty((3, *warp.size))
    for y in range(warp.size[0]):
        for x in range(warp.size[1]):
            across, down, scale = matrix @ np.array([x + 0.5, y + 0.5, 1])
            across, down = across / scale, down / scale
            if warp.interpolation == "nearest":
                output[:, y, x] = pixel(int(np.floor(down)), int(np.floor(across)))
                continue
            assert warp.interpolation == "bilinear"
            left, top = np.floor(across - 0.5), np.floor(down - 0.5)
            right_share, below_share = across - 0.5 - left, down - 0.5 - top
            output[:, y, x] = sum(
                weight * pixel(int(top) + dy, int(left) + dx)
                for dy, dx, weight in (
                    (0, 0, (1 - below_share) * (1 - right_share)),
                    (0, 1, (1 - below_share) * right_share),
                    (1, 0, below_share * (1 - right_share)),
                    (1, 1, below_share * right_share),
                )
            )
    return _rounded(output)
