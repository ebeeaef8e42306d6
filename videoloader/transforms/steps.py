"""Kinds of geometric transforms, told by what they can do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from videoloader.convert import Geometry
from videoloader.transforms.operations import ClipInfo
from videoloader.transforms.resampling import Resampling


@runtime_checkable
class GeometryStep(Protocol):
    """A crop, resize, flip or border."""

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""


@runtime_checkable
class ViewStep(Protocol):
    """A step that makes several clips of one."""

    @property
    def views(self) -> int:
        """V, how many."""

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The V geometries with this step added."""


@runtime_checkable
class WarpStep(Protocol):
    """A rotation, affine map or perspective: frames keep their size."""

    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling | None:
        """The step as drawn for one clip; None where nothing is done."""


@runtime_checkable
class Choice(Protocol):
    """A transform that carries out others, or not."""

    @property
    def alternatives(self) -> Iterable[Sequence[object]]:
        """All that may be carried out: each a list of transforms, empty for none."""

    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> Sequence[object]:
        """The transforms that one clip gets."""


def is_axis_aligned(transform: object) -> bool:
    """Whether conversion can carry a transform out: a crop, resize, flip or border, several views, a choice of such."""
    if isinstance(transform, Choice):
        inner = [each for alternative in transform.alternatives for each in alternative]
        return all(is_axis_aligned(each) and not isinstance(each, ViewStep) for each in inner)
    return isinstance(transform, GeometryStep | ViewStep)
