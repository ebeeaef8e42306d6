"""Frames turned left to right or upside down, always or now and then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from videoloader.convert import Geometry
from videoloader.errors import check_probability
from videoloader.transforms.operations import checked
from videoloader.transforms.planning.steps import GeometryStep


@dataclass(frozen=True)
class HorizontalFlip(GeometryStep):
    """Turn all frames left to right."""

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        border = geometry.border.mirrored() if geometry.border else None
        return replace(geometry, flip=not geometry.flip, border=border)


@dataclass(frozen=True)
class VerticalFlip(GeometryStep):
    """Turn all frames upside down."""

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        border = geometry.border.upside_down() if geometry.border else None
        return replace(geometry, flip_vertical=not geometry.flip_vertical, border=border)


@dataclass(frozen=True)
class RandomHorizontalFlip(GeometryStep):
    """Turn all frames of a clip left to right with probability ``p``.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1].
    """

    p: float = field(default=0.5, metadata=checked(check_probability))

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return HorizontalFlip().plan(geometry, rng) if rng.random() < self.p else geometry


@dataclass(frozen=True)
class RandomVerticalFlip(GeometryStep):
    """Turn all frames of a clip upside down with probability ``p``.

    Raises:
        ConfigurationError: ``p`` is outside [0, 1].
    """

    p: float = field(default=0.5, metadata=checked(check_probability))

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return VerticalFlip().plan(geometry, rng) if rng.random() < self.p else geometry
