"""Flips frames horizontally or vertically, always or at random."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.errors.checks import check_probability
from videoloader.transforms.operations import checked
from videoloader.transforms.planning.steps import GeometryStep


@dataclass(frozen=True)
class HorizontalFlip(GeometryStep):
    """Flip all frames horizontally."""

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        border = geometry.border.mirrored() if geometry.border else None
        return replace(geometry, flip=not geometry.flip, border=border)


@dataclass(frozen=True)
class VerticalFlip(GeometryStep):
    """Flip all frames vertically."""

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        border = geometry.border.upside_down() if geometry.border else None
        return replace(geometry, flip_vertical=not geometry.flip_vertical, border=border)


@dataclass(frozen=True)
class RandomHorizontalFlip(GeometryStep):
    """Flip all frames of a clip horizontally with probability ``p``.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1].
    """

    p: float = field(default=0.5, metadata=checked(check_probability))

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return HorizontalFlip().plan(geometry, rng) if rng.random() < self.p else geometry


@dataclass(frozen=True)
class RandomVerticalFlip(GeometryStep):
    """Flip all frames of a clip vertically with probability ``p``.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1].
    """

    p: float = field(default=0.5, metadata=checked(check_probability))

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return VerticalFlip().plan(geometry, rng) if rng.random() < self.p else geometry
