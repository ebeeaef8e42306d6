"""Computes the map from points of a clip's frames to points of its video."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.transforms.geometry.coordinates import geometry_matrices, geometry_matrix
from videoloader.transforms.geometry.warp_matrices import Matrices
from videoloader.transforms.operations import Operation, Warp
from videoloader.transforms.planning.pipeline import DrawnView


def source_matrix(geometry: Geometry, operations: Sequence[Operation] = ()) -> Matrices:
    """The map from points of a clip's frames to points of the video.

    Coordinates are in pixels from the corner of the top left pixel, whose centre is (0.5, 0.5), in displayed frames.

    Args:
        geometry: geometry of the clip's conversion.
        operations: operations as drawn for the clip, in order; only warps matter.

    Returns:
        float64[F, 3, 3]: the point (x, y) maps to ``matrix @ (x, y, 1)``, divided by its third component. F is 1 where
        all frames have the same matrix.
    """
    warps = [operation.matrix for operation in operations if isinstance(operation, Warp)]
    return reduce(np.matmul, warps, geometry_matrix(geometry)[None])


def source_matrices(views: Sequence[DrawnView]) -> Matrices:
    """The ``source_matrix`` of each view, stacked by ``stack_matrices``."""
    if any(view.operations for view in views):
        return stack_matrices([source_matrix(view.geometry, view.operations) for view in views])
    return geometry_matrices([view.geometry for view in views])


def stack_matrices(matrices: Sequence[Matrices]) -> Matrices:
    """The matrices of B clips: float64[B, 3, 3], or float64[B, T, 3, 3] where those of a clip differ by frame.

    Args:
        matrices: float64[1 or T, 3, 3] each. T is the length of the longest clip; the last matrix of a shorter one is
            repeated.
    """
    longest = max(len(matrix) for matrix in matrices)
    if longest == 1:
        return np.concatenate(matrices)
    return np.stack([matrix[np.minimum(np.arange(longest), len(matrix) - 1)] for matrix in matrices])
