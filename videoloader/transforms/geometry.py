"""Crops, resizes and flips. Each takes the geometry planned so far and returns it with itself added.

Nothing is resampled here: the steps of a clip add up to one geometry, which conversion carries out at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from videoloader.convert import Geometry, Interpolation
from videoloader.errors import ConfigurationError


def pair(size: int | tuple[int, int], name: str) -> tuple[int, int]:
    """(height, width) given as that, or as one number for both.

    Raises:
        ConfigurationError: one of them is not positive; the message names the step.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ConfigurationError(f"{name} needs a positive size, not {size}")
    return height, width


def check_interpolation(interpolation: str) -> None:
    """Raise ConfigurationError if there is no such interpolation."""
    if interpolation not in get_args(Interpolation):
        allowed = ", ".join(get_args(Interpolation))
        raise ConfigurationError(f"interpolation is {interpolation!r}, not one of {allowed}")


def _cut(geometry: Geometry, top: int, left: int, height: int, width: int) -> Geometry:
    """Keep a box of the output as it is now."""
    rows, columns = geometry.output_size
    if top < 0 or left < 0 or top + height > rows or left + width > columns:
        raise ConfigurationError(f"a crop of {height}×{width} does not fit into frames of {rows}×{columns}")
    if geometry.flip:
        left = columns - left - width
    if geometry.window is None and geometry.size == geometry.crop[2:]:
        # Nothing is resized yet: cutting the source is the same, and less to read.
        return replace(
            geometry,
            crop=(geometry.crop[0] + top, geometry.crop[1] + left, height, width),
            size=(height, width),
        )
    window = geometry.window or (0, 0, *geometry.size)
    return replace(geometry, window=(window[0] + top, window[1] + left, height, width))


@dataclass(frozen=True)
class Resize:
    """Resize frames, as torchvision does.

    Args:
        size: an int for the shorter edge, keeping the aspect ratio; or (height, width).
        interpolation: ``"bilinear"``, ``"bicubic"`` or ``"nearest"``; see ``Geometry``. Steps that resize what another
            has resized make one resize of both, with the interpolation of the last.
        antialias: whether the filter gets wider as the frames get smaller.

    Raises:
        ConfigurationError: a size below one, or another interpolation.
    """

    size: int | tuple[int, int]
    interpolation: Interpolation = field(default="bilinear", kw_only=True)
    antialias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        pair(self.size, "Resize")
        check_interpolation(self.interpolation)

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        rows, columns = geometry.output_size
        if isinstance(self.size, int):
            # The longer edge is cut down to whole pixels, as torchvision does.
            short, long = min(rows, columns), max(rows, columns)
            other = int(self.size * long / short)
            size = (self.size, other) if rows <= columns else (other, self.size)
        else:
            size = self.size
        return _resize(geometry, size, self.interpolation, self.antialias)


def _resize(geometry: Geometry, size: tuple[int, int], interpolation: Interpolation, antialias: bool) -> Geometry:
    geometry = replace(geometry, interpolation=interpolation, antialias=antialias)
    if geometry.window is None:
        return replace(geometry, size=size)
    # The window of an earlier resize becomes the source's nearest whole pixels.
    top, left, height, width = geometry.window
    crop_top, crop_left, rows, columns = geometry.crop
    down, across = rows / geometry.size[0], columns / geometry.size[1]
    y0, x0 = round(top * down), round(left * across)
    y1, x1 = max(round((top + height) * down), y0 + 1), max(round((left + width) * across), x0 + 1)
    return replace(geometry, crop=(crop_top + y0, crop_left + x0, y1 - y0, x1 - x0), size=size, window=None)


@dataclass(frozen=True)
class CenterCrop:
    """Keep the middle of the frames.

    Args:
        size: an int for a square, or (height, width).

    Raises:
        ConfigurationError: a size below one; when used, frames smaller than it.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        pair(self.size, "CenterCrop")

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        height, width = pair(self.size, "CenterCrop")
        rows, columns = geometry.output_size
        return _cut(geometry, round((rows - height) / 2), round((columns - width) / 2), height, width)


@dataclass(frozen=True)
class RandomResizedCrop:
    """Cut a random box out of the frames, the same for the whole clip, and resize it.

    The box covers a share of the area drawn from ``scale`` and has an aspect ratio whose logarithm is drawn
    evenly from ``ratio`` (Szegedy et al., "Going Deeper with Convolutions", 2015). After ten boxes that do
    not fit, the largest central one of an allowed ratio is taken.

    Args:
        size: of the output: an int for a square, or (height, width).
        scale: smallest and largest share of the frame's area.
        ratio: smallest and largest width over height.
        interpolation, antialias: see ``Resize``.

    Raises:
        ConfigurationError: a size below one, a range that is empty or not positive, or another interpolation.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = field(default="bilinear", kw_only=True)
    antialias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        pair(self.size, "RandomResizedCrop")
        check_interpolation(self.interpolation)
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if not 0 < low <= high:
                raise ConfigurationError(f"RandomResizedCrop needs 0 < low <= high for {name}, not {(low, high)}")

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        box = self._box(*geometry.output_size, rng)
        size = pair(self.size, "RandomResizedCrop")
        return _resize(_cut(geometry, *box), size, self.interpolation, self.antialias)

    def _box(self, rows: int, columns: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        low, high = (math.log(bound) for bound in self.ratio)
        for _ in range(10):
            area = rows * columns * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(low, high))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= columns and 0 < height <= rows:
                return int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1)), height, width
        whole = columns / rows
        width = round(rows * self.ratio[1]) if whole > self.ratio[1] else columns
        height = round(columns / self.ratio[0]) if whole < self.ratio[0] else rows
        return (rows - height) // 2, (columns - width) // 2, height, width


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Turn all frames of a clip left to right with probability ``p``.

    Raises:
        ConfigurationError: ``p`` outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ConfigurationError(f"RandomHorizontalFlip needs a probability, not {self.p}")

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        if rng.random() >= self.p:
            return geometry
        border = geometry.border.mirrored() if geometry.border else None
        return replace(geometry, flip=not geometry.flip, border=border)
