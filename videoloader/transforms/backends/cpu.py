"""Carries out operations on clips in main memory, with the same results as the CUDA kernels, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.rounding import round_to, to_uint8
from videoloader.convert.spec import OutputSpec
from videoloader.transforms.backends.work import ClipWork
from videoloader.transforms.geometry.warping import warp_tensor
from videoloader.transforms.operations import ColorMatrix, Erase, HueShift, Sharpen, StatisticTable, Table, Warp


def carry_out(works: Sequence[ClipWork], output: OutputSpec) -> None:
    """Carry out the works; the results of the last ones get the output's dtype and normalisation."""
    for work in works:
        frames = work.source[work.source_row]
        for operation in work.operations:
            frames = _OPERATIONS[type(operation)](frames, operation)
        if work.last:
            _write(frames, output, work.target[work.target_row])
        else:
            work.target[work.target_row] = frames


def _write(frames: torch.Tensor, output: OutputSpec, slot: torch.Tensor) -> None:
    if slot.dtype == torch.uint8:
        slot.copy_(frames)
        return
    scale, shift = (torch.from_numpy(each)[:, None, None] for each in output.scale_shift())
    slot.copy_(frames.float().div_(255).mul_(scale).add_(shift))


def _per_frame(values: npt.NDArray[Any]) -> torch.Tensor:
    """One number for all frames, or one for each, in a shape that broadcasts with [T, H, W]."""
    return torch.from_numpy(np.ascontiguousarray(values))[..., None, None]


def _look_up(frames: torch.Tensor, values: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Map uint8[T, 3, H, W] through tables uint8[F, 3, 256]."""
    source, result = frames.numpy(), np.empty(frames.shape, np.uint8)
    for row, table in enumerate(values):
        part = slice(None) if len(values) == 1 else row
        for channel in range(3):
            np.take(table[channel], source[part, ..., channel, :, :], out=result[part, ..., channel, :, :], mode="clip")
    return torch.from_numpy(result)


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
    return to_uint8(table)


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
        result[:, channel] = round_to(mixed, torch.uint8)
    return result


def _hue_shift(frames: torch.Tensor, operation: HueShift) -> torch.Tensor:
    # In HSV's hexcone the largest and smallest components depend only on value and saturation, so rotating keeps both.
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
        result[:, channel] = round_to(torch.where(extent > 0, turned, values[channel]), torch.uint8)
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
    sharp = smooth + _per_frame(operation.factor)[..., None] * (middle - smooth)
    result[..., 1:-1, 1:-1] = round_to(sharp, torch.uint8)
    return result


def _erase(frames: torch.Tensor, operation: Erase) -> torch.Tensor:
    result = frames.clone()
    color = round_to(torch.tensor(operation.fill, dtype=torch.float32, device="cpu"), torch.uint8)[:, None, None]
    for row, boxes in enumerate(operation.boxes.tolist()):
        part = result if len(operation.boxes) == 1 else result[row]
        for top, left, height, width in boxes:
            rows, columns = slice(max(top, 0), max(top + height, 0)), slice(max(left, 0), max(left + width, 0))
            part[..., rows, columns] = color
    return result


_OPERATIONS: dict[type, Any] = {
    Table: lambda frames, operation: _look_up(frames, operation.values),
    StatisticTable: _statistic_table,
    ColorMatrix: _color_matrix,
    HueShift: _hue_shift,
    Sharpen: _sharpen,
    Warp: warp_tensor,
    Erase: _erase,
}
