"""Expresses a conversion as a matrix from output to input points, and maps points through matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Geometry
from videoloader.errors import ConfigurationError, warn_user
from videoloader.errors.checks import check_shape
from videoloader.transforms.geometry.warp_matrices import Matrices


def picture_box(geometry: Geometry) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the picture in the output, in pixels."""
    top, left = (0, 0) if geometry.border is None else (geometry.border.top, geometry.border.left)
    return top, left, *geometry.picture_size


def geometry_matrix(geometry: Geometry) -> Matrices:
    """float64[3, 3]: the map from points of a conversion's output to points of the displayed frames.

    A point (x, y) maps to ``matrix @ (x, y, 1)``. Both are in pixels from the corner of the top left pixel, whose
    centre is (0.5, 0.5).
    """
    matrix: Matrices = geometry_matrices([geometry])[0]
    return matrix


def geometry_matrices(geometries: Sequence[Geometry]) -> Matrices:
    """float64[N, 3, 3]: the ``geometry_matrix`` of each."""
    return np.array([_matrix_rows(each) for each in geometries], np.float64)


def _matrix_rows(geometry: Geometry) -> tuple[tuple[float, float, float], ...]:
    top, left, height, width = picture_box(geometry)
    window_top, window_left = (0, 0) if geometry.window is None else geometry.window[:2]
    crop_top, crop_left, rows, columns = geometry.crop
    scale_x, scale_y = columns / geometry.size[1], rows / geometry.size[0]
    # Column x of the output is column start + sign · x of the resized crop; rows likewise.
    sign_x, start_x = (-1, left + width + window_left) if geometry.flip else (1, window_left - left)
    sign_y, start_y = (-1, top + height + window_top) if geometry.flip_vertical else (1, window_top - top)
    return (
        (sign_x * scale_x, 0.0, crop_left + start_x * scale_x),
        (0.0, sign_y * scale_y, crop_top + start_y * scale_y),
        (0.0, 0.0, 1.0),
    )


def apply_matrix(matrix: Matrices, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Map points (x, y), float64[N, ..., 2], through matrices, float64[N, 3, 3]; either N may be 1."""
    matrix = matrix.reshape(len(matrix), *[1] * (points.ndim - 2), 3, 3)
    mapped = (matrix[..., :2] @ points[..., None])[..., 0] + matrix[..., 2]
    result: npt.NDArray[np.float64] = mapped[..., :2] / mapped[..., 2:]
    return result


def inverse(matrix: Matrices) -> Matrices:
    """float64[..., 3, 3]: the inverse maps."""
    return np.linalg.inv(matrix).astype(np.float64)


def map_points(points: torch.Tensor, matrix: Matrices) -> torch.Tensor:
    """Map points or boxes through matrices, such as those from a batch's frames to the videos.

    Args:
        points: [N, ..., 2] for points (x, y), or [N, ..., 4] for boxes (x1, y1, x2, y2).
        matrix: float64[N, 3, 3], or float64[N, T, 3, 3] for points [N, T, ...]; see ``boxes.source_matrix``.

    Returns:
        A tensor of the same shape, float32 or the wider dtype of the input. A box becomes the bounding box of its
        mapped corners: x1 ≤ x2 and y1 ≤ y2.

    Raises:
        ConfigurationError: the points have neither shape.
    """
    leading = matrix.ndim - 2
    fits = points.ndim > leading and points.shape[-1] in (2, 4) and points.shape[:leading] == matrix.shape[:leading]
    shape = ", ".join(map(str, matrix.shape[:leading]))
    check_shape("points", points, fits, f"[{shape}, ..., 2] or [{shape}, ..., 4]")
    points = points.to(torch.promote_types(points.dtype, torch.float32))
    ones = [1] * (points.ndim - 1 - leading)
    rows = torch.tensor(matrix, dtype=points.dtype, device=points.device).reshape(*matrix.shape[:leading], *ones, 3, 3)
    if points.shape[-1] == 2:
        return _through(points, rows)
    x, y = points[..., [0, 2, 2, 0]], points[..., [1, 1, 3, 3]]
    corners = _through(torch.stack([x, y], -1), rows.unsqueeze(-3))
    return torch.cat([corners.amin(-2), corners.amax(-2)], -1)


def check_in_pixels(points: torch.Tensor, of: str) -> None:
    """Refuse boxes whose corners are not in order, and warn about points or boxes that seem to be shares of a picture.

    Points on a GPU are not looked at, since the program would wait for them.

    Args:
        points: [..., 2] for points or [..., 4] for boxes.
        of: the picture that they belong to, for the message.

    Raises:
        ConfigurationError: a box on the CPU ends before it starts.
    """
    if points.device.type != "cpu":
        return
    is_boxes = points.shape[-1:] == (4,)
    if is_boxes and len(backwards := points[(points[..., 2:] < points[..., :2]).any(-1)]):
        told = f"got {backwards[0].tolist()}: sort the corners, and turn (x, y, width, height) into them"
        raise ConfigurationError(f"boxes must be (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2, {told}")
    # The centre of the first pixel is at 0.5.
    if points.numel() and points.max() <= 1 and ((points > 0) & (points < 1) & (points != 0.5)).any():
        kind, got = "boxes" if is_boxes else "points", points.reshape(-1, points.shape[-1])[0].tolist()
        warn_user(f"{kind} are in pixels of the {of}, got {got}: multiply shares by its width and height")


def _through(points: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    # Products are added one by one: a matrix product may have lower precision on a GPU.
    x, y, scale = (row[..., 0] * points[..., 0] + row[..., 1] * points[..., 1] + row[..., 2] for row in rows.unbind(-2))
    return torch.stack([x / scale, y / scale], -1)
