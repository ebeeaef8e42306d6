"""Transforms that erase parts of frames, by default the same place in all frames, so that no frame reveals it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from videoloader.convert.rounding import to_uint8
from videoloader.convert.spec import fill_color
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_integer, check_numbers, check_probability
from videoloader.transforms.backends.parts import for_all_frames
from videoloader.transforms.crops import POSITIVE, draw_sides
from videoloader.transforms.curves import Range, check_range, draw_range_by_frame
from videoloader.transforms.noise import draw_keys, uniform
from videoloader.transforms.operations import BatchFunction, ClipInfo, Erase, Params, PixelTransform, checked
from videoloader.transforms.planning.steps import Sized

_SHARES = checked(check_numbers, 2, "(low, high) with 0 <= low <= high <= 1", lambda low, high: 0 <= low <= high <= 1)


@dataclass(frozen=True)
class RandomErasing(PixelTransform):
    """Fill one random box, as torchvision does (Zhong et al., "Random Erasing Data Augmentation", arXiv 1708.04896).

    The box covers a share of the area drawn from ``scale``; its ratio of height to width is drawn log-uniformly from
    ``ratio``. If ten boxes in a row do not fit, nothing is erased.

    Args:
        p: float, default 0.5. The probability that a box is erased from a clip.
        scale: (float, float), default (0.02, 0.33). The smallest and the largest share of the frame's area, in [0, 1].
        ratio: (float, float), default (0.3, 3.3). The smallest and the largest height over width, above 0.
        value: float, three of them or ``"random"``, default 0. Red, green and blue, or one number for all, 0 … 255.
            ``"random"`` draws each channel of each pixel uniformly, the same in all frames unless ``per_frame`` is set.
        per_frame: bool, default False. Whether each frame has its own box.

    Raises:
        ConfigurationError: an argument is out of its range.

    Examples:
        The setting for fine-tuning video transformers (here it comes before Normalize):

            >>> transforms = [RandomErasing(p=0.25, scale=(0.02, 1 / 3), value="random")]
    """

    p: float = field(default=0.5, metadata=checked(check_probability))
    scale: tuple[float, float] = field(default=(0.02, 0.33), metadata=_SHARES)
    ratio: tuple[float, float] = field(default=(0.3, 3.3), metadata=POSITIVE)
    value: float | Sequence[float] | Literal["random"] = 0
    per_frame: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value != "random":
            fill_color(self.value, "RandomErasing's value")

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Erase | BatchFunction]:
        """Return the box, or none."""
        if rng.random() >= self.p:
            return []
        frames = clip.length if self.per_frame else 1
        boxes = np.array([[self._box(rng, clip.height, clip.width)] for _ in range(frames)], np.int32)
        if self.value != "random":
            return [Erase(boxes, fill_color(self.value))]
        keys = draw_keys(rng, clip.length, per_frame=self.per_frame)
        params = {"boxes": np.broadcast_to(boxes[:, 0], (clip.length, 4)), "keys": keys}
        return [BatchFunction(fill_with_noise, params, by_frame=tuple(params))]

    def _box(self, rng: np.random.Generator, rows: int, columns: int) -> tuple[int, int, int, int]:
        for height, width in draw_sides(rows * columns, self.scale, self.ratio, rng):
            if height < rows and width < columns:
                return int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1)), height, width
        return 0, 0, 0, 0


def fill_with_noise(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``RandomErasing`` with random values.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: ``boxes`` int32[N, T, 4], (top, left, height, width); ``keys`` uint32[N, T, 3, 2].
    """
    boxes = torch.from_numpy(params["boxes"].reshape(-1, 4)).to(frames.device, non_blocking=True)
    keys = params["keys"].reshape(-1, 3, 2)

    def fill(part: torch.Tensor, which: slice) -> torch.Tensor:
        top, left, height, width = boxes[which].view(-1, 4, 1, 1, 1).unbind(1)
        y = torch.arange(part.shape[2], device=part.device)[:, None]
        x = torch.arange(part.shape[3], device=part.device)
        inside = (y >= top) & (y < top + height) & (x >= left) & (x < left + width)
        noise = uniform(keys[which], part[0, 0].numel(), part.device) >> 16
        return torch.where(inside, noise.to(torch.uint8).view(part.shape), part)

    return for_all_frames(frames, fill)


@dataclass(frozen=True)
class Cutout(Sized, PixelTransform):
    """Fill boxes of one size around random pixels (DeVries and Taylor, "Improved Regularization … with Cutout", 2017).

    A box may be centred on any pixel, so near the border only part of it is erased; see arXiv 1708.04552.

    Args:
        size: int or (int, int). The size of the boxes in pixels: an int for squares, or (height, width).
        holes: int, default 1. The number of boxes.
        fill: number or three of them, default 0. Red, green and blue, or one number for all, 0 … 255.
        per_frame: bool, default False. Whether each frame has its own boxes.

    Raises:
        ConfigurationError: a size or the number of holes is below one, or a colour is outside [0, 255]; in use, a box
            always covers the whole frame.
    """

    holes: int = field(default=1, metadata=checked(check_integer))
    fill: float | Sequence[float] = 0
    per_frame: bool = field(default=False, kw_only=True)

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Erase]:
        """Return the boxes."""
        whole, sides = np.array([clip.height, clip.width]), np.array(self._sides)
        if self._sides[0] >= 2 * clip.height and self._sides[1] >= 2 * clip.width:
            boxes, frames = "×".join(map(str, self._sides)), f"{clip.height}×{clip.width}"
            raise ConfigurationError(f"Cutout's boxes of {boxes} always cover the whole of frames of {frames}")
        centres = rng.integers(whole, size=(clip.length if self.per_frame else 1, self.holes, 2))
        first = (centres - sides // 2).clip(0)
        last = (centres - sides // 2 + sides).clip(max=whole)
        return [Erase(np.concatenate([first, last - first], axis=-1).astype(np.int32), fill_color(self.fill))]


@dataclass(frozen=True)
class GridMask(PixelTransform):
    """Fill squares in a regular grid (Chen et al., "GridMask Data Augmentation", arXiv 2001.04086).

    The grid's cells are ``d`` pixels wide. In each cell, a square of ``(1 − ratio) · d`` is erased. The offset of the
    grid is drawn uniformly; the grid may be rotated about the frame's centre.

    Args:
        d: number, (low, high) or curve, default (96, 224). The width of a cell in pixels, at least 2.
        ratio: number, (low, high) or curve, default 0.6. The share of a cell's side that is kept, 0 … 1: r in the
            paper.
        angle: number, (low, high) or curve, default 0. The rotation of the grid in degrees, counter-clockwise.
        fill: number or three of them, default 0. Red, green and blue, or one number for all, 0 … 255.

    Raises:
        ConfigurationError: an argument is out of its range.

    Examples:
        The paper's setting for 224×224:

            >>> transforms = [GridMask(d=(96, 224), ratio=0.6, angle=(0, 360))]
    """

    d: Range = field(default=(96, 224), metadata=checked(check_range, 2))
    ratio: Range = field(default=0.6, metadata=checked(check_range, 0, 1))
    angle: Range = field(default=0.0, metadata=checked(check_range))
    fill: float | Sequence[float] = 0

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return the grid's cells, their phase and direction, for each frame."""
        cell, ratio, angle = (
            draw_range_by_frame(value, rng, clip.length) for value in (self.d, self.ratio, self.angle)
        )
        turn = np.deg2rad(angle)
        grid = np.stack(
            [cell, (1 - ratio) * cell, *(cell * phase for phase in rng.random(2)), np.cos(turn), np.sin(turn)]
        )
        params = {"grid": grid.T, "fill": np.array(fill_color(self.fill))}
        return [BatchFunction(erase_grid, params, by_frame=("grid",))]


def erase_grid(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``GridMask``.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: ``grid`` float64[N, T, 6]: the cell, side of the erased square, shift of x and y, cosine and sine of the
            angle in each frame. ``fill`` float64[N, 3], 0 … 255.
    """
    grids = torch.from_numpy(params["grid"].reshape(-1, 6)).to(frames.device, non_blocking=True)
    colors = np.repeat(to_uint8(params["fill"]), frames.shape[1], axis=0)
    fills = torch.from_numpy(colors).to(frames.device, non_blocking=True)

    def erase(part: torch.Tensor, which: slice) -> torch.Tensor:
        cell, side, shift_x, shift_y, cosine, sine = grids[which].view(-1, 6, 1, 1, 1).unbind(1)
        rows, columns = part.shape[2:]
        # In float64, with products added one by one, so that every device finds the same squares.
        y = torch.arange(rows, dtype=torch.float64, device=part.device)[:, None] - (rows - 1) / 2
        x = torch.arange(columns, dtype=torch.float64, device=part.device) - (columns - 1) / 2
        across = (x * cosine - y * sine + shift_x).remainder(cell) < side
        down = (x * sine + y * cosine + shift_y).remainder(cell) < side
        return torch.where(across & down, fills[which, :, None, None], part)

    return for_all_frames(frames, erase)
