"""Makes the matrices of ``Warp``, which map output pixels to input pixels.

Each function takes numbers, or one for each of F frames, and returns float64[F, 3, 3] from output to input, in pixels
from the corner of the top left pixel: x to the right, y down. ``a @ b`` applies ``a`` to the picture, and then ``b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Number: TypeAlias = float | npt.NDArray[np.float64]
Matrices: TypeAlias = npt.NDArray[np.float64]
Point: TypeAlias = tuple[Number, Number]


def rotation(degrees: Number, centre: Point) -> Matrices:
    """Rotate the picture about ``centre`` (x, y), counter-clockwise as seen."""
    turn = np.radians(degrees)
    cosine, sine = np.cos(turn), np.sin(turn)
    return _about(centre, [[cosine, -sine], [sine, cosine]])


def shear(across: Number, down: Number, centre: Point) -> Matrices:
    """Move points y below ``centre`` by ``across · y`` to the left, and points x to its right by ``down · x`` up.

    Both factors are tangents, not angles; ``across`` is applied first. This is Pillow's ``(1, across, 0,
    0, 1, 0)``, as published for automatic augmentation (Cubuk et al., arXiv 1805.09501).
    """
    return _about(centre, [[1 + across * down, across], [down, 1.0]])


def translation(right: Number, down: Number) -> Matrices:
    """Move the picture by so many pixels."""
    return _matrices([[1.0, 0.0, -right], [0.0, 1.0, -down]])


def scaling(across: Number, down: Number, centre: Point) -> Matrices:
    """Scale the picture's width and height by these factors; ``centre`` (x, y) stays in place."""
    return _about(centre, [[1 / across, 0.0], [0.0, 1 / down]])


def _about(centre: Point, linear: Sequence[Sequence[Number]]) -> Matrices:
    x, y = centre
    return _matrices([[*row, own - (row[0] * x + row[1] * y)] for row, own in zip(linear, centre, strict=True)])


def _matrices(rows: Sequence[Sequence[Number]]) -> Matrices:
    matrices = np.zeros((max(np.size(number) for row in rows for number in row), 3, 3))
    matrices[:, 2, 2] = 1
    for place, row in enumerate(rows):
        for column, number in enumerate(row):
            matrices[:, place, column] = number
    return matrices
