"""The single geometry that transforms combine into, for a clip with one view."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.transforms import Transform
from videoloader.transforms.planning.fused_geometry import plan_geometries


def plan_geometry(transforms: Sequence[Transform], display_size: tuple[int, int], rng: np.random.Generator) -> Geometry:
    """See ``plan_geometries``."""
    (geometry,) = plan_geometries(transforms, display_size, rng)
    return geometry
