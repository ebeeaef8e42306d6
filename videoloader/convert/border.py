"""Fill the border around a picture in a larger output, with a colour or with pixels of the picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from videoloader import padding
from videoloader.errors import ConfigurationError


@dataclass(frozen=True)
class Border:
    """Rows and columns around a picture.

    Attributes:
        top, bottom, left, right: numbers of rows and columns in pixels.
        mode: a mode of ``padding.MODES`` except ``"none"``.
        fill: red, green and blue of mode ``"constant"``, each 0 … 255 for any kind of output: they are converted and
            normalised like any other pixel.
    """

    top: int
    bottom: int
    left: int
    right: int
    mode: str = "constant"
    fill: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        if min(self.top, self.bottom, self.left, self.right) < 0:
            raise ConfigurationError(f"a border cannot have a negative number of rows or columns: {self}")

    def mirrored(self) -> Border:
        """Return the border of an output that is flipped left to right."""
        return replace(self, left=self.right, right=self.left)

    def upside_down(self) -> Border:
        """Return the border of an output that is flipped upside down."""
        return replace(self, top=self.bottom, bottom=self.top)

    def picture(self, slot: torch.Tensor) -> torch.Tensor:
        """Return a view of the picture inside an output [..., H, W]."""
        *_, height, width = slot.shape
        return slot[..., self.top : height - self.bottom, self.left : width - self.right]


def fill_border(slot: torch.Tensor, border: Border, pixel: torch.Tensor) -> None:
    """Fill a border with one colour. The picture is neither read nor written.

    Args:
        slot: [C, H, W] of any strides.
        border: border of the picture.
        pixel: [C], as values of the output.
    """
    _, height, width = slot.shape
    color, bottom = pixel[:, None, None], height - border.bottom
    for part in (
        slot[:, : border.top],
        slot[:, bottom:],
        slot[:, border.top : bottom, : border.left],
        slot[:, border.top : bottom, width - border.right :],
    ):
        if part.numel():
            part.copy_(color.expand_as(part))


def extend_picture(slot: torch.Tensor, border: Border) -> None:
    """Fill a border from the picture that it surrounds, by applying ``padding.pad`` to rows and columns.

    Args:
        slot: [C, H, W] of any strides, with the picture in place.
        border: border of the picture, with any mode except ``"constant"``.
    """
    rows = slot[:, border.top : slot.shape[1] - border.bottom]
    _extend(rows.transpose(1, 2), border.picture(slot).transpose(1, 2), border.left, border.mode)
    _extend(slot, rows, border.top, border.mode)


def _extend(target: torch.Tensor, inner: torch.Tensor, before: int, mode: str) -> None:
    """Fill the rows of a target before and after its inner part."""
    for at, first, count, step in _runs(inner.shape[1], before, target.shape[1] - before - inner.shape[1], mode):
        if step < 0:
            source = inner[:, first - count + 1 : first + 1].flip(1)
        else:
            source = inner[:, first : first + (count if step else 1)]
        target[:, at : at + count].copy_(source)


@lru_cache(4096)
def _runs(size: int, before: int, after: int, mode: str) -> tuple[tuple[int, int, int, int], ...]:
    """Describe the rows to copy as slices, since index tensors would have to be sent to the GPU for every frame.

    Returns:
        Tuples of where the rows go, the first one's row in the picture, how many there are, and the step to the next
        row: 1, -1, or 0 if all are the same row.
    """
    rows, inside = padding.pad(np.arange(-before, size + after), 0, size, mode)
    runs: list[tuple[int, int, int, int]] = []
    for at in np.flatnonzero(~inside).tolist():
        row = int(rows[at])
        start, first, count, step = runs[-1] if runs else (-1, 0, 0, 1)
        if at == start + count and count == 1 and abs(row - first) <= 1:
            runs[-1] = (start, first, 2, row - first)
        elif at == start + count and row == first + step * count:
            runs[-1] = (start, first, count + 1, step)
        else:
            runs.append((at, row, 1, 1))
    return tuple(runs)
