"""Applies ``Warp`` in torch to tensors of any dtype, number of channels and device: frames, masks, flow, depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.rounding import round_to
from videoloader.convert.spec import Interpolation
from videoloader.transforms.geometry.tensor_geometry import as_signed
from videoloader.transforms.operations import Warp


class _Points(NamedTuple):
    """The taps of all output pixels in a picture that was padded with its outside.

    Attributes:
        first: int64[H', W'], the number of the first tap (up and left).
        right, below: [H', W'] of the picture's dtype, the point's distance from the centre of that tap, in pixels.
        outside: bool[H', W'], points whose taps are all outside; their first tap is meaningless.
    """

    first: torch.Tensor
    right: torch.Tensor
    below: torch.Tensor
    outside: torch.Tensor


def _linear_weights(t: torch.Tensor) -> list[torch.Tensor]:
    """The weights of the two pixels around a point at distance ``t`` after the first."""
    return [1 - t, t]


def _cubic_weights(t: torch.Tensor) -> list[torch.Tensor]:
    """The weights of the four pixels around a point at distance ``t`` after the second.

    Keys, "Cubic convolution interpolation for digital image processing" (1981), with a = −0.75.
    """
    a = -0.75
    near = [((a + 2) * distance - (a + 3)) * distance * distance + 1 for distance in (t, 1 - t)]
    far = [((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a for distance in (t + 1, 1 - t + 1)]
    return [far[0], near[0], near[1], far[1]]


class _Filter(NamedTuple):
    """The taps that an interpolation takes from the input.

    Attributes:
        before, after, border: distances outside the input, in pixels, beyond which points and their taps see only the
            fill. As many taps as ``after`` come before the pixel of a point.
        weights: function that returns the weights of the taps along one axis; None for a single tap.
    """

    before: int
    after: int
    border: int
    weights: Callable[[torch.Tensor], list[torch.Tensor]] | None


_FILTERS: dict[Interpolation, _Filter] = {
    "nearest": _Filter(0, 0, 0, None),
    "bilinear": _Filter(1, 0, 1, _linear_weights),
    "bicubic": _Filter(2, 1, 3, _cubic_weights),
}


def warp_tensor(frames: torch.Tensor, warp: Warp, fill: Sequence[float] | None = None) -> torch.Tensor:
    """Resample frames by a warp. For uint8 frames the result equals that of the CUDA kernels, bit for bit.

    Args:
        frames: [T, C, H, W] of any numeric dtype.
        warp: warp with one matrix, or T.
        fill: one value for each channel, or one for all, in place of the warp's fill.

    Returns:
        [T, C, *warp.size] of the same dtype: integers are rounded to the nearest, halves up, and clamped to the range
        of the dtype. With nearest interpolation and one sample, no new values arise.
    """
    border = _FILTERS[warp.interpolation].border
    moved = warp.interpolation == "nearest" and warp.samples == (1, 1)
    dtype = frames.dtype if moved else torch.promote_types(frames.dtype, torch.float32)
    fills = torch.as_tensor(warp.fill if fill is None else fill, dtype=torch.float64, device=frames.device)
    outside = round_to(fills, dtype).expand(frames.shape[1])[:, None, None]
    down, across = warp.samples
    offsets = [((i + 0.5) / across, (j + 0.5) / down) for j in range(down) for i in range(across)]
    result = frames.new_empty(*frames.shape[:2], *warp.size)
    points: list[_Points] = []
    for number, frame in enumerate(each.to(dtype) for each in frames):
        if number < len(warp.matrix):
            points = [_points(warp.matrix[number], each, warp, frame) for each in offsets]
        picture = _surrounded(frame, border, None if warp.extend else outside)
        samples = (_interpolated(picture, each, warp.interpolation) for each in points)
        total = _sum(torch.where(each.outside, outside, values) for each, values in zip(points, samples, strict=True))
        result[number] = total if moved else round_to(total.div_(len(points)), frames.dtype)
    return result


def _points(matrix: npt.NDArray[np.float64], offset: tuple[float, float], warp: Warp, frame: torch.Tensor) -> _Points:
    """The input points of output pixels, taken at an offset (x, y) from each pixel's top left corner."""
    before, after, border, _ = _FILTERS[warp.interpolation]
    height, width = frame.shape[1:]
    rows, columns = (torch.arange(side, dtype=torch.float64, device=frame.device) for side in warp.size)
    x, y = columns + offset[0], (rows + offset[1])[:, None]
    u, v, w = ((row[0] * x + row[1] * y) + row[2] for row in matrix.tolist())
    u, v = u / w, v / w
    if warp.interpolation != "nearest":
        u, v = u - 0.5, v - 0.5
    if warp.extend:
        # Points further away are all alike; fmin and fmax also remove undefined points (0 / 0).
        u, v = (_clamp(each, -before, side - 1 + after) for each, side in ((u, width), (v, height)))
    inside = (u >= -before) & (v >= -before) & (u < width + after) & (v < height + after)
    u, v = torch.where(inside, u, 0.0), torch.where(inside, v, 0.0)
    column, row = u.floor(), v.floor()
    first = border - after
    index = (row.long() + first) * (width + 2 * border) + column.long() + first
    return _Points(index, (u - column).to(frame.dtype), (v - row).to(frame.dtype), ~inside)


def _clamp(values: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return torch.fmin(torch.fmax(values, values.new_tensor(low)), values.new_tensor(high))


def _surrounded(frame: torch.Tensor, border: int, outside: torch.Tensor | None) -> torch.Tensor:
    """Pad a frame with so many rows and columns of a colour, or of its own nearest pixels."""
    if outside is None and border:
        return torch.nn.functional.pad(frame[None], [border] * 4, mode="replicate")[0]
    if outside is None or not border:
        return frame
    height, width = frame.shape[1:]
    picture = outside.repeat(1, height + 2 * border, width + 2 * border)
    picture[:, border : border + height, border : border + width] = frame
    return picture


def _interpolated(picture: torch.Tensor, points: _Points, interpolation: Interpolation) -> torch.Tensor:
    """[C, H', W']: the values at points."""
    weights = _FILTERS[interpolation].weights
    if weights is None:
        return _taps(picture, points, 0, 0)
    columns = weights(points.right)
    lines = (
        _sum(_taps(picture, points, right, below) * column for right, column in enumerate(columns)).mul_(row)
        for below, row in enumerate(weights(points.below))
    )
    return _sum(lines)


def _taps(picture: torch.Tensor, points: _Points, right: int, below: int) -> torch.Tensor:
    """[C, H', W']: for each point, the tap at this offset from its first tap."""
    index, planes = points.first + (below * picture.shape[2] + right), picture.flatten(1)
    # Advanced indexing would take four times as long.
    taps = as_signed(planes).gather(1, index.flatten().expand(len(planes), -1))
    return taps.view(planes.dtype).view(-1, *index.shape)


def _sum(parts: Iterable[torch.Tensor]) -> torch.Tensor:
    """Sum tensors one by one, in the memory of the first."""
    return reduce(torch.Tensor.add_, parts)
