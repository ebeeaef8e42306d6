"""Combines the drawn geometric steps of a clip into as few resamplings as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from videoloader.convert.spec import Geometry, Interpolation
from videoloader.transforms.geometry.coordinates import apply_matrix, geometry_matrix, inverse
from videoloader.transforms.operations import Warp

Size: TypeAlias = tuple[int, int]
Color: TypeAlias = tuple[float, float, float]

# The most points for an output pixel along each axis; see ``Warp.samples``.
_MAX_SAMPLES = 8
# Pixels. Rounding errors stay far below this, and smaller moves change no pixel.
_NOTHING = 1e-7


class Resampling(NamedTuple):
    """One geometric step of one clip.

    Attributes:
        matrix: float64[F, 3, 3], from the output to the input; see ``Warp``.
        size: (height, width) of the output, in pixels.
        interpolation: the interpolation; None where whole pixels move to whole pixels.
        antialias: whether several points are averaged for each output pixel where the picture gets smaller.
        fill: red, green and blue outside the input; None for a step that never reads there, or extends the nearest
            pixel.
        crops: whether it cuts off a part of the frames on purpose, which must not reappear.
        surrounds: whether it adds a border, in which no part of the picture may appear.
    """

    matrix: npt.NDArray[np.float64]
    size: Size
    interpolation: Interpolation | None
    antialias: bool
    fill: Color | None
    crops: bool = False
    surrounds: bool = False


def of_geometry(geometry: Geometry, size: Size) -> Resampling:
    """Crop, resize, flips and border as one step.

    Args:
        geometry: geometry for frames of this size; its border, if any, has one colour.
        size: (height, width), pixels.
    """
    resizes = geometry.size != geometry.crop[2:]
    return Resampling(
        geometry_matrix(geometry)[None],
        geometry.output_size,
        geometry.interpolation if resizes else None,
        resizes and geometry.antialias,
        geometry.border.fill if geometry.border is not None else None,
        geometry.crop[2:] != size or geometry.window is not None,
        geometry.border is not None,
    )


def compose(steps: Sequence[Resampling], size: Size) -> list[Warp]:
    """Combine successive steps into one warp; none if nothing changes.

    Frame edges between two warps are ignored: what one moves out of the frame reappears if the next one moves it back.
    What is cropped stays cropped. The interpolation is that of the last step that does more than move whole pixels.

    Two warps are made only where one cannot express the result: a step would show what was cropped before; a border
    covers a place where the picture continues; or two steps fill with different colours, and both are visible.

    Args:
        steps: steps in the order in which they apply.
        size: (height, width) of the first step's input, in pixels.
    """
    warps: list[Warp] = []
    whole: Resampling | None = None
    start = size
    for step in steps:
        joined = step if whole is None else _join(whole, step, start)
        if joined is None and whole is not None:
            warps += _warps(whole, start)
            start, joined = whole.size, step
        whole = joined
    return warps if whole is None else warps + _warps(whole, start)


def _join(first: Resampling, second: Resampling, size: Size) -> Resampling | None:
    """Both steps as one, or None if one warp cannot express them."""
    fill = second.fill or first.fill
    if second.fill and _shows_outside(second, first.size):
        if first.fill and first.fill != second.fill and _shows_outside(first, size):
            return None
        if first.crops or (second.surrounds and not _shows_all(first, size)):
            return None
    elif first.fill and _shows_outside(first, size):
        fill = first.fill
    return Resampling(
        first.matrix @ second.matrix,
        second.size,
        first.interpolation if second.interpolation is None else second.interpolation,
        first.antialias or second.antialias,
        fill,
        first.crops or second.crops,
        first.surrounds or second.surrounds,
    )


def _warps(step: Resampling, size: Size) -> list[Warp]:
    if step.size == size and np.abs(_corners(step) - _rectangle(size)).max() < _NOTHING:
        return []
    interpolation = step.interpolation or "nearest"
    samples = _samples(step) if step.antialias and interpolation != "nearest" else (1, 1)
    fill = step.fill or (0.0, 0.0, 0.0)
    return [Warp(step.matrix, step.size, interpolation, fill, samples, extend=step.fill is None)]


def _rectangle(size: Size) -> npt.NDArray[np.float64]:
    """float64[4, 2]: the corners of frames, (x, y)."""
    height, width = size
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)


def _corners(step: Resampling) -> npt.NDArray[np.float64]:
    """float64[F, 4, 2]: the positions of the output's corners in the input."""
    return apply_matrix(step.matrix, _rectangle(step.size)[None])


def _shows_outside(step: Resampling, size: Size) -> bool:
    # A matrix maps straight lines to straight lines: if the corners are inside, so is everything else.
    corners, (height, width) = _corners(step), size
    return bool((corners < -_NOTHING).any() or (corners > np.array([width, height]) + _NOTHING).any())


def _shows_all(step: Resampling, size: Size) -> bool:
    back = step._replace(matrix=inverse(step.matrix), size=size)
    return not _shows_outside(back, step.size)


def _samples(step: Resampling) -> tuple[int, int]:
    """(down, across) points for each output pixel, so that neighbouring points are at most an input pixel apart."""
    # A perspective matrix shrinks the picture most at a corner.
    corners, moved = _rectangle(step.size)[None], 1e-3
    across, down = (
        np.linalg.norm(apply_matrix(step.matrix, corners + move) - _corners(step), axis=-1).max() / moved
        for move in np.diag([moved, moved])
    )
    return _points(float(down)), _points(float(across))


def _points(step: float) -> int:
    return min(max(math.ceil(step - 1e-3), 1), _MAX_SAMPLES)
