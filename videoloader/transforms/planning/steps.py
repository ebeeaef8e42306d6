"""Kinds of geometric transforms, told by what they can do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeGuard

import numpy as np

from videoloader.convert import Geometry
from videoloader.transforms.geometry.resampling import Resampling
from videoloader.transforms.operations import ClipInfo


class GeometryStep(Protocol):
    """A crop, resize, flip or border."""

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""


class ViewStep(Protocol):
    """A step that makes several clips of one."""

    @property
    def views(self) -> int:
        """V, how many."""

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The V geometries with this step added."""


class WarpStep(Protocol):
    """A rotation, affine map or perspective: frames keep their size."""

    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling | None:
        """The step as drawn for one clip; None where nothing is done."""


class Choice(Protocol):
    """A transform that carries out others, or not."""

    @property
    def alternatives(self) -> Iterable[Sequence[object]]:
        """All that may be carried out: each a list of transforms, empty for none."""

    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> Sequence[object]:
        """The transforms that one clip gets."""


# isinstance of a Protocol takes many times as long, and clips are planned by the thousand.


def is_geometry_step(transform: object) -> TypeGuard[GeometryStep]:
    """Whether it is a ``GeometryStep``."""
    return hasattr(transform, "plan")


def is_view_step(transform: object) -> TypeGuard[ViewStep]:
    """Whether it is a ``ViewStep``."""
    return hasattr(transform, "plan_views")


def is_warp_step(transform: object) -> TypeGuard[WarpStep]:
    """Whether it is a ``WarpStep``."""
    return hasattr(transform, "resampling")


def is_choice(transform: object) -> TypeGuard[Choice]:
    """Whether it is a ``Choice``."""
    return hasattr(transform, "choose")


def is_axis_aligned(transform: object) -> bool:
    """Whether conversion can carry a transform out: a crop, resize, flip or border, several views, a choice of such."""
    if is_choice(transform):
        inner = [each for alternative in transform.alternatives for each in alternative]
        return all(is_axis_aligned(each) and not is_view_step(each) for each in inner)
    return is_geometry_step(transform) or is_view_step(transform)
