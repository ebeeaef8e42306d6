"""Where the picture of a clip lies in its frames, and where points of the frames lie in the video."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch

from videoloader.convert import Geometry
from videoloader.errors import ConfigurationError
from videoloader.transforms.coordinates import Matrices, geometry_matrix
from videoloader.transforms.operations import Operation, Warp


def source_matrix(geometry: Geometry, operations: Sequence[Operation] = ()) -> Matrices:
    """Where points of a clip's frames lie in the video.

    Points are counted in pixels from the corner of the top left pixel, whose centre is at (0.5, 0.5), in frames as a
    player shows them.

    Args:
        geometry: of the clip's conversion.
        operations: drawn for the clip, in order; of which only warps matter.

    Returns:
        float64[F, 3, 3]: the point (x, y) lies at ``matrix @ (x, y, 1)``, divided by its third number. F is 1 where all
        frames have the same.
    """
    warps = [operation.matrix for operation in operations if isinstance(operation, Warp)]
    return reduce(np.matmul, warps, geometry_matrix(geometry)[None])


def stack_matrices(matrices: Sequence[Matrices]) -> Matrices:
    """Those of B clips: float64[B, 3, 3], or float64[B, T, 3, 3] where those of one clip differ from frame to frame.

    Args:
        matrices: float64[1 or T, 3, 3] each, of clips of the same length where T is not 1.

    Raises:
        ConfigurationError: T differs.
    """
    lengths = {len(matrix) for matrix in matrices} - {1}
    if not lengths:
        return np.concatenate(matrices)
    if len(lengths) > 1:
        raise ConfigurationError(f"warps that differ from frame to frame need clips of one length, not {lengths}")
    return np.stack([np.broadcast_to(matrix, (*lengths, 3, 3)) for matrix in matrices])


def map_points(points: torch.Tensor, matrix: Matrices) -> torch.Tensor:
    """Points or boxes through matrices, such as those from a batch's frames to the videos.

    Args:
        points: [N, ..., 2] for points (x, y), or [N, ..., 4] for boxes (x1, y1, x2, y2).
        matrix: float64[N, 3, 3], or float64[N, T, 3, 3] for points [N, T, ...]; see ``source_matrix``.

    Returns:
        The same shape, float32 or the wider type that they came in. Of a box it is the smallest one around its mapped
        corners: x1 ≤ x2 and y1 ≤ y2.

    Raises:
        ConfigurationError: the points are neither.
    """
    leading = matrix.ndim - 2
    if points.ndim <= leading or points.shape[-1] not in (2, 4) or points.shape[:leading] != matrix.shape[:leading]:
        shape = ", ".join(str(length) for length in matrix.shape[:leading])
        raise ConfigurationError(f"points are {list(points.shape)}, not [{shape}, ..., 2] or [{shape}, ..., 4]")
    points = points.to(torch.promote_types(points.dtype, torch.float32))
    ones = [1] * (points.ndim - 1 - leading)
    rows = torch.from_numpy(matrix).to(points).reshape(*matrix.shape[:leading], *ones, 3, 3)
    if points.shape[-1] == 2:
        return _through(points, rows)
    x, y = points[..., [0, 2, 2, 0]], points[..., [1, 1, 3, 3]]
    corners = _through(torch.stack([x, y], -1), rows.unsqueeze(-3))
    return torch.cat([corners.amin(-2), corners.amax(-2)], -1)


def _through(points: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    # Added up one by one: a matrix product may be of lower precision on a GPU.
    x, y, scale = (row[..., 0] * points[..., 0] + row[..., 1] * points[..., 1] + row[..., 2] for row in rows.unbind(-2))
    return torch.stack([x / scale, y / scale], -1)
