"""The operations on clips in main memory, one after the other. The numbers are those of the kernels, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.transforms.engines.work import ClipWork, Finish
from videoloader.transforms.operations import (
    ColorMatrix,
    Erase,
    HueShift,
    Sharpen,
    StatisticTable,
    Table,
    Warp,
)


def carry_out(works: Sequence[ClipWork], finish: Finish) -> None:
    """Do the works."""
    for work in works:
        frames = work.source[work.source_row]
        for operation in work.operations:
            frames = _OPERATIONS[type(operation)](frames, operation)
        if work.last:
            _write(frames, finish, finish.frames(work.target)[work.target_row])
        else:
            work.target[work.target_row] = frames


def _write(frames: torch.Tensor, finish: Finish, slot: torch.Tensor) -> None:
    if slot.dtype == torch.uint8:
        slot.copy_(frames)
        return
    scale, shift = (torch.from_numpy(each)[:, None, None] for each in finish.output.scale_shift())
    slot.copy_(frames.float().div_(255).mul_(scale).add_(shift))


def _rounded(values: torch.Tensor) -> torch.Tensor:
    """Floats as uint8, to nearest, halves up; they are overwritten."""
    return values.clamp_(0, 255).add_(0.5).to(torch.uint8)


def _per_frame(values: npt.NDArray[Any]) -> torch.Tensor:
    """Numbers of one row for all frames, or one for each, to be combined with [T, H, W]."""
    return torch.from_numpy(np.ascontiguousarray(values))[..., None, None]


def _look_up(frames: torch.Tensor, values: npt.NDArray[np.uint8]) -> torch.Tensor:
    """uint8[F, 3, 256] of uint8[T, 3, H, W]."""
    source, result = frames.numpy(), np.empty(frames.shape, np.uint8)
    for row, table in enumerate(values):
        part = slice(None) if len(values) == 1 else row
        for channel in range(3):
            np.take(table[channel], source[part, ..., channel, :, :], out=result[part, ..., channel, :, :], mode="clip")
    return torch.from_numpy(result)


def _table(frames: torch.Tensor, operation: Table) -> torch.Tensor:
    return _look_up(frames, operation.values)


def _statistic_table(frames: torch.Tensor, operation: StatisticTable) -> torch.Tensor:
    make = {"contrast": _contrast, "auto_contrast": _auto_contrast, "equalize": _equalize}[operation.statistic]
    count = len(frames) if operation.per_frame else 1
    rows = max(count, len(operation.factor))
    tables = np.empty((rows, 3, 256), np.uint8)
    for row, factor in enumerate(np.broadcast_to(operation.factor, rows)):
        tables[row] = make(frames[row : row + 1] if operation.per_frame else frames, factor)
    return _look_up(frames, tables)


def _contrast(frames: torch.Tensor, factor: np.float32) -> npt.NDArray[np.uint8]:
    red, green, blue = frames.int().unbind(1)
    gray = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
    mean = np.float32(int(gray.sum(dtype=torch.int64)) / gray.numel())
    values = np.arange(256, dtype=np.float32)
    table: npt.NDArray[np.float32] = np.clip(mean + factor * (values - mean), 0, 255)
    return (table + np.float32(0.5)).astype(np.uint8)


def _auto_contrast(frames: torch.Tensor, factor: np.float32) -> npt.NDArray[np.uint8]:
    tables = np.tile(np.arange(256), (3, 1))
    for table, channel in zip(tables, frames.unbind(1), strict=True):
        low, high = int(channel.min()), int(channel.max())
        if high > low:
            table[:] = np.clip((2 * 255 * (table - low) + high - low) // (2 * (high - low)), 0, 255)
    return tables.astype(np.uint8)


def _equalize(frames: torch.Tensor, factor: np.float32) -> npt.NDArray[np.uint8]:
    tables = np.tile(np.arange(256), (3, 1))
    for table, channel in zip(tables, frames.numpy().swapaxes(0, 1), strict=True):
        counts = np.bincount(channel.ravel(), minlength=256)
        step = (channel.size - counts[np.flatnonzero(counts)[-1]]) // 255
        if step:
            table[:] = np.minimum((np.cumsum(counts) - counts + step // 2) // step, 255)
    return tables.astype(np.uint8)


def _color_matrix(frames: torch.Tensor, operation: ColorMatrix) -> torch.Tensor:
    red, green, blue = frames.float().unbind(1)
    matrix = _per_frame(operation.matrix)
    result = torch.empty_like(frames)
    for channel in range(3):
        m = matrix[:, channel]
        mixed = (m[:, 0] * red).add_(m[:, 1] * green).add_(m[:, 2] * blue).add_(m[:, 3])
        result[:, channel] = _rounded(mixed)
    return result


def _hue_shift(frames: torch.Tensor, operation: HueShift) -> torch.Tensor:
    # In HSV's hexcone largest and smallest component are value and what saturation leaves of it: a turn keeps both.
    red, green, blue = values = frames.float().unbind(1)
    least, most = (each.float() for each in torch.aminmax(frames, dim=1))
    extent = most - least
    whole = extent.clamp(min=1)
    hue = torch.where(
        most == red,
        (green - blue) / whole,
        torch.where(most == green, (blue - red) / whole + 2, (red - green) / whole + 4),
    )
    hue += _per_frame(np.float32(6) * operation.turns)
    hue -= 6 * torch.floor(hue / 6)
    parts = ((hue - 3).abs_() - 1, 2 - (hue - 2).abs_(), 2 - (hue - 4).abs_())
    result = torch.empty_like(frames)
    for channel, part in enumerate(parts):
        turned = least + extent * part.clamp_(0, 1)
        result[:, channel] = _rounded(torch.where(extent > 0, turned, values[channel]))
    return result


def _sharpen(frames: torch.Tensor, operation: Sharpen) -> torch.Tensor:
    result = frames.clone()
    if min(frames.shape[-2:]) < 3:
        return result
    values = frames.short()
    rows = values[..., :-2, :] + values[..., 1:-1, :] + values[..., 2:, :]
    middle = values[..., 1:-1, 1:-1]
    sums = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * middle
    smooth = (2 * sums + 13).div_(26, rounding_mode="floor").float()
    result[..., 1:-1, 1:-1] = _rounded(smooth + _per_frame(operation.factor)[..., None] * (middle - smooth))
    return result


def _erase(frames: torch.Tensor, operation: Erase) -> torch.Tensor:
    result = frames.clone()
    color = _rounded(torch.tensor(operation.fill, dtype=torch.float32))[:, None, None]
    for row, boxes in enumerate(operation.boxes.tolist()):
        part = result if len(operation.boxes) == 1 else result[row]
        for top, left, height, width in boxes:
            rows, columns = slice(max(top, 0), max(top + height, 0)), slice(max(left, 0), max(left + width, 0))
            part[..., rows, columns] = color
    return result


class _Points(NamedTuple):
    """Where the taps of all output pixels lie in frames that have a border of what is outside around them.

    Attributes:
        first: int64[H', W'], the number of the first tap (up and left).
        right, below: float32[H', W'], how far the point lies after that tap's centre, pixels.
        outside: bool[H', W'], points whose taps all lie outside; their first tap means nothing.
    """

    first: torch.Tensor
    right: torch.Tensor
    below: torch.Tensor
    outside: torch.Tensor


class _Reach(NamedTuple):
    """How far points, and their taps, may lie outside the input, pixels: more has the fill's value alone."""

    before: int
    after: int
    border: int


_REACH = {"nearest": _Reach(0, 0, 0), "bilinear": _Reach(1, 0, 1), "bicubic": _Reach(2, 1, 3)}


def _warp(frames: torch.Tensor, operation: Warp) -> torch.Tensor:
    border = _REACH[operation.interpolation].border
    fill = torch.tensor(operation.fill, dtype=torch.float32)
    size = (frames.shape[-2], frames.shape[-1])
    result = torch.empty((len(frames), 3, *operation.size), dtype=torch.uint8)
    across, down = operation.samples[1], operation.samples[0]
    offsets = [((i + 0.5) / across, (j + 0.5) / down) for j in range(down) for i in range(across)]
    points: list[_Points] = []
    for number, frame in enumerate(frames):
        if number < len(operation.matrix):
            points = [_points(operation.matrix[number], each, size, operation) for each in offsets]
        if operation.extend:
            picture = torch.nn.functional.pad(frame.float()[None], [border] * 4, mode="replicate")[0]
        else:
            picture = fill[:, None, None].repeat(1, size[0] + 2 * border, size[1] + 2 * border)
            picture[:, border : border + size[0], border : border + size[1]] = frame
        total = torch.zeros((3, *operation.size))
        for each in points:
            values = _INTERPOLATE[operation.interpolation](picture, each)
            total += torch.where(each.outside, fill[:, None, None], values)
        result[number] = _rounded(total.div_(len(points)))
    return result


def _points(
    matrix: npt.NDArray[np.float64], offset: tuple[float, float], size: tuple[int, int], operation: Warp
) -> _Points:
    """The points that output pixels show, taken at an offset (x, y) from each one's top left corner."""
    before, after, border = _REACH[operation.interpolation]
    m = matrix.tolist()
    x = torch.arange(operation.size[1], dtype=torch.float64) + offset[0]
    y = (torch.arange(operation.size[0], dtype=torch.float64) + offset[1])[:, None]
    u, v, w = ((row[0] * x + row[1] * y) + row[2] for row in m)
    u, v = u / w, v / w
    if operation.interpolation != "nearest":
        u, v = u - 0.5, v - 0.5
    if operation.extend:
        # Further away nothing changes any more; fmin and fmax leave no point that is none (0 / 0).
        u, v = (_clamp(each, -before, side - 1 + after) for each, side in ((u, size[1]), (v, size[0])))
    inside = (u >= -before) & (v >= -before) & (u < size[1] + after) & (v < size[0] + after)
    u, v = torch.where(inside, u, 0.0), torch.where(inside, v, 0.0)
    column, row = u.floor(), v.floor()
    first = border - (operation.interpolation == "bicubic")
    index = (row.long() + first) * (size[1] + 2 * border) + column.long() + first
    return _Points(index, (u - column).float(), (v - row).float(), ~inside)


def _clamp(values: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return torch.fmin(torch.fmax(values, values.new_tensor(low)), values.new_tensor(high))


def _taps(picture: torch.Tensor, points: _Points, right: int, below: int) -> torch.Tensor:
    """float32[3, H', W']: of each point the tap that lies so far from its first."""
    index = points.first + (below * picture.shape[2] + right)
    return torch.from_numpy(np.take(picture.flatten(1).numpy(), index.numpy(), axis=1))


def _nearest(picture: torch.Tensor, points: _Points) -> torch.Tensor:
    return _taps(picture, points, 0, 0)


def _bilinear(picture: torch.Tensor, points: _Points) -> torch.Tensor:
    right, below = points.right, points.below
    left = 1 - right
    upper = (_taps(picture, points, 0, 0) * left).add_(_taps(picture, points, 1, 0) * right)
    lower = (_taps(picture, points, 0, 1) * left).add_(_taps(picture, points, 1, 1) * right)
    return upper.mul_(1 - below).add_(lower.mul_(below))


def _bicubic(picture: torch.Tensor, points: _Points) -> torch.Tensor:
    result = torch.zeros((3, *points.first.shape))
    columns = _cubic_weights(points.right)
    for below, weight in enumerate(_cubic_weights(points.below)):
        line = torch.zeros_like(result)
        for right, column in enumerate(columns):
            line += _taps(picture, points, right, below) * column
        result += line.mul_(weight)
    return result


def _cubic_weights(t: torch.Tensor) -> list[torch.Tensor]:
    """Keys, "Cubic convolution interpolation for digital image processing" (1981), a = −0.75.

    Of the four pixels around a point that lies ``t`` after the second.
    """
    a = -0.75
    after = 1 - t
    weights = []
    for near, far in ((t, t + 1), (after, after + 1)):
        weights.append(
            (
                ((a + 2) * near - (a + 3)) * near * near + 1,
                ((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
            )
        )
    (second, first), (third, fourth) = weights
    return [first, second, third, fourth]


_INTERPOLATE = {"nearest": _nearest, "bilinear": _bilinear, "bicubic": _bicubic}
_OPERATIONS: dict[type, Any] = {
    Table: _table,
    StatisticTable: _statistic_table,
    ColorMatrix: _color_matrix,
    HueShift: _hue_shift,
    Sharpen: _sharpen,
    Warp: _warp,
    Erase: _erase,
}
