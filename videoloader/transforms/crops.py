"""Crops: at a fixed place, at the centre, at a random place, or a random box that is resized."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from videoloader import padding as padding_modes
from videoloader.convert.border import Border
from videoloader.convert.spec import Geometry, Interpolation, fill_color
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_integer, check_numbers
from videoloader.padding import Filling
from videoloader.transforms.borders import check_border_mode
from videoloader.transforms.geometry.fusing import cut, cut_at, resize_to
from videoloader.transforms.operations import checked
from videoloader.transforms.planning.steps import GeometryStep, Sized

POSITIVE = checked(check_numbers, 2, "(low, high) with 0 < low <= high", lambda low, high: 0 < low <= high)
_SHARES = checked(check_numbers, 2, "(low, high) with 0 < low <= high <= 1", lambda low, high: 0 < low <= high <= 1)


@dataclass(frozen=True)
class Crop(Sized, GeometryStep):
    """Crop frames to a box of this size at a fixed place, as torchvision's ``functional.crop`` does.

    Args:
        size: int or (int, int). The size of the output: an int for a square, or (height, width).
        top, left: int, default 0. The first row and column to keep.

    Raises:
        ConfigurationError: a size is below one, or a position below zero; in use, the box reaches outside the frames.

    Examples:
        >>> transforms = [Crop((700, 1280), top=20), Resize((112, 224))]  # without the rows of a logo
    """

    _: KW_ONLY
    top: int = field(default=0, metadata=checked(check_integer, 0))
    left: int = field(default=0, metadata=checked(check_integer, 0))

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return cut(geometry, self.top, self.left, *self._sides)


@dataclass(frozen=True)
class CenterCrop(Sized, GeometryStep):
    """Crop frames to their centre.

    Args:
        size: int or (int, int). The size of the output: an int for a square, or (height, width).

    Raises:
        ConfigurationError: a size is below one; in use, frames are smaller than that.
    """

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return cut_at(geometry, self._sides, 0.5, 0.5)


@dataclass(frozen=True)
class RandomCrop(Sized, GeometryStep):
    """Crop frames to a random box of this size, the same for the whole clip, as torchvision does.

    Args:
        size: int or (int, int). The size of the output: an int for a square, or (height, width).
        padding: int, default 0. The rows and columns to add on every side first; fewer than the size.
        pad_if_needed: bool, default False. Whether frames smaller than the size are padded to it. The picture then lies
            at a random place.
        mode: str, default ``"constant"``. The content of these rows and columns; see ``Letterbox``. ``padding`` allows
            only ``"constant"`` and ``"edge"``.
        fill: number or three of them, default 0. The red, green and blue of mode ``"constant"``; see ``Letterbox``.

    Raises:
        ConfigurationError: a size is below one, ``padding`` is below zero or not below the size, or there is no such
            mode or colour; in use without ``pad_if_needed``, frames are smaller than the size.

    Examples:
        >>> transforms = [Resize(36), RandomCrop(32, padding=4)]
    """

    _: KW_ONLY
    padding: int = 0
    pad_if_needed: bool = False
    mode: Filling = field(default="constant", metadata=checked(check_border_mode))
    fill: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("RandomCrop's padding", self.padding, 0, min(self._sides) - 1)
        if self.padding and padding_modes.check_mode(self.mode) not in ("constant", "edge"):
            raise ConfigurationError(f"RandomCrop's padding takes mode 'constant' or 'edge', not {self.mode!r}")

    @property
    def adds_border(self) -> bool:
        """Whether there may be a border around the picture."""
        return self.padding > 0 or self.pad_if_needed

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        spans = [self._span(*lengths, rng) for lengths in zip(geometry.output_size, self._sides, strict=True)]
        (top, height, above, below), (left, width, before, after) = spans
        geometry = cut(geometry, top, left, height, width)
        if not any((above, below, before, after)):
            return geometry
        border = Border(above, below, before, after, padding_modes.check_mode(self.mode), fill_color(self.fill))
        return replace(geometry, border=border)

    def _span(self, length: int, size: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """(first pixel kept, number kept, padding before, padding after) along one axis."""
        added = self.padding
        if self.pad_if_needed:
            added += max(size - length - 2 * added, 0)
        if size > length + 2 * added:
            more = f" with a padding of {self.padding}" if self.padding else ""
            told = f"a RandomCrop of {size} pixels does not fit into {length}{more}"
            raise ConfigurationError(f"{told}: add a Resize or pad_if_needed=True")
        start = int(rng.integers(length + 2 * added - size + 1)) - added
        first, stop = max(start, 0), min(start + size, length)
        return first, stop - first, first - start, start + size - stop


@dataclass(frozen=True)
class RandomResizedCrop(Sized, GeometryStep):
    """Crop frames to a random box, the same for the whole clip, and resize it.

    The box covers a share of the area drawn from ``scale`` and has an aspect ratio drawn log-uniformly from ``ratio``
    (Szegedy et al., "Going Deeper with Convolutions", 2015). If ten boxes in a row do not fit, the largest central one
    of an allowed ratio is used.

    Args:
        size: int or (int, int). The size of the output: an int for a square, or (height, width).
        scale: (float, float), default (0.08, 1.0). The smallest and the largest share of the frame's area, at most 1.
        ratio: (float, float), default (3/4, 4/3). The smallest and the largest width over height.
        interpolation, antialias: default ``"bilinear"`` and True. See ``Resize``.

    Raises:
        ConfigurationError: a size is below one, a range is empty or not positive, a share is above 1, or there is no
            such interpolation.
    """

    scale: tuple[float, float] = field(default=(0.08, 1.0), metadata=_SHARES)
    ratio: tuple[float, float] = field(default=(3 / 4, 4 / 3), metadata=POSITIVE)
    interpolation: Interpolation = field(default="bilinear", kw_only=True)
    antialias: bool = field(default=True, kw_only=True)

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        box = self._box(*geometry.output_size, rng)
        return resize_to(cut(geometry, *box), self._sides, self.interpolation, self.antialias)

    def _box(self, rows: int, columns: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        for width, height in draw_sides(rows * columns, self.scale, self.ratio, rng):
            if 0 < width <= columns and 0 < height <= rows:
                return int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1)), height, width
        whole = columns / rows
        width = max(round(rows * self.ratio[1]), 1) if whole > self.ratio[1] else columns
        height = max(round(columns / self.ratio[0]), 1) if whole < self.ratio[0] else rows
        return (rows - height) // 2, (columns - width) // 2, height, width


def draw_sides(
    area: int, scale: tuple[float, float], ratio: tuple[float, float], rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Draw the two sides of a random box, for up to ten tries.

    Args:
        area: area of the frames, pixels.
        scale: smallest and largest share of it, drawn uniformly.
        ratio: smallest and largest ratio of first to second side, drawn log-uniformly.
        rng: generator, from which each try is drawn on demand.
    """
    low, high = (math.log(bound) for bound in ratio)
    for _ in range(10):
        covered, quotient = area * rng.uniform(*scale), math.exp(rng.uniform(low, high))
        # Extreme ratios make a side infinite.
        yield round(min(math.sqrt(covered * quotient), area)), round(min(math.sqrt(covered / quotient), area))
