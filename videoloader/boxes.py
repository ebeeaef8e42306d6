"""Where the picture of a clip lies in its frames, and where points of the frames lie in the video."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import Geometry
from videoloader.errors import ConfigurationError


def picture_box(geometry: Geometry) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the picture in the output, pixels."""
    top, left = (0, 0) if geometry.border is None else (geometry.border.top, geometry.border.left)
    return top, left, *geometry.picture_size


def source_affine(geometry: Geometry) -> npt.NDArray[np.float64]:
    """float64[2, 2]: (scale, shift) for x and for y; a point of the output lies at ``scale · x + shift`` of the video.

    Both are counted in pixels from the top left corner of the top left pixel, whose centre is at (0.5, 0.5), in frames
    as a player shows them.
    """
    top, left, height, width = picture_box(geometry)
    window_top, window_left = (0, 0) if geometry.window is None else geometry.window[:2]
    crop_top, crop_left, rows, columns = geometry.crop
    scale_x, scale_y = columns / geometry.size[1], rows / geometry.size[0]
    # A column x of the output is column start + sign · x of the resized crop, and so are its rows.
    sign_x, start_x = (-1, left + width + window_left) if geometry.flip else (1, window_left - left)
    sign_y, start_y = (-1, top + height + window_top) if geometry.flip_vertical else (1, window_top - top)
    return np.array(
        [
            [sign_x * scale_x, crop_left + start_x * scale_x],
            [sign_y * scale_y, crop_top + start_y * scale_y],
        ]
    )


def map_points(points: torch.Tensor, affine: npt.NDArray[np.float64]) -> torch.Tensor:
    """Points or boxes of the output in the video's frames.

    Args:
        points: [N, ..., 2] for points (x, y), or [N, ..., 4] for boxes (x1, y1, x2, y2).
        affine: float64[N, 2, 2]; see ``source_affine``.

    Returns:
        The same shape, float32 or the wider type that they came in. Boxes have x1 ≤ x2 and y1 ≤ y2, flipped or not.

    Raises:
        ConfigurationError: the points are neither.
    """
    if points.ndim < 2 or points.shape[-1] not in (2, 4) or len(points) != len(affine):
        raise ConfigurationError(
            f"points are {list(points.shape)}, not [{len(affine)}, ..., 2] or [{len(affine)}, ..., 4]"
        )
    points = points.to(torch.promote_types(points.dtype, torch.float32))
    factors = torch.from_numpy(affine).to(points)
    scale, shift = (each.reshape(len(points), *[1] * (points.ndim - 2), 2) for each in factors.unbind(2))
    if points.shape[-1] == 2:
        return points * scale + shift
    corners = points.reshape(*points.shape[:-1], 2, 2) * scale.unsqueeze(-2) + shift.unsqueeze(-2)
    return torch.sort(corners, -2).values.reshape(points.shape)
