"""The filters of a resize, by the names that ``interpolation=`` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.convert.spec import Geometry, Interpolation

# The order of ``enum Filter`` in pixels.h.
KERNELS = ("LINEAR", "CUBIC", "CUBIC_EDGES", "NEAREST")

Weights = npt.NDArray[np.float64]


class Filter(NamedTuple):
    """One filter.

    Attributes:
        reach: distance that it reaches, in pixels of the coarser of the two pictures.
        kernels: its names in ``KERNELS``, without antialias and with it.
        weights: function of distances in these pixels, and of whether there is antialias, that returns the weights of
            pixels; None for nearest, which copies pixels.
        overshoots: whether sums of weighted pixels may leave the range of the pixels.
    """

    reach: int
    kernels: tuple[str, str]
    weights: Callable[[Weights, bool], Weights] | None = None
    overshoots: bool = False


def _triangle(x: Weights, antialias: bool) -> Weights:
    return np.maximum(1 - x, 0)


def _cubic(x: Weights, antialias: bool) -> Weights:
    """The weights of Keys, "Cubic convolution interpolation for digital image processing" (1981), with PyTorch's a."""
    a = -0.5 if antialias else -0.75
    return np.where(x < 1, ((a + 2) * x - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a * (x < 2))


FILTERS: dict[Interpolation, Filter] = {
    "bilinear": Filter(1, ("LINEAR", "LINEAR"), _triangle),
    "bicubic": Filter(2, ("CUBIC_EDGES", "CUBIC"), _cubic, overshoots=True),
    "nearest": Filter(1, ("NEAREST", "NEAREST")),
}


def kernel_of(geometry: Geometry) -> str:
    """The one of ``KERNELS`` that resizes pictures to a geometry."""
    return FILTERS[geometry.interpolation].kernels[geometry.antialias]
