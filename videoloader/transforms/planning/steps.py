"""Kinds of geometric transforms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeGuard

import numpy as np

from videoloader.convert import Geometry
from videoloader.transforms.geometry.resampling import Resampling, compose
from videoloader.transforms.operations import ClipInfo, PixelTransform, Transform, Warp


class GeometryStep(Transform):
    """A crop, resize, flip or border."""

    @abstractmethod
    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""


class ViewStep(Transform):
    """A step that makes several clips of one.

    Attributes:
        views: V, how many.
    """

    views: int

    @abstractmethod
    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The V geometries with this step added."""


class WarpStep(PixelTransform):
    """A rotation, affine map or perspective: frames keep their size."""

    @abstractmethod
    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling | None:
        """The step as drawn for one clip; None where nothing is done."""

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Warp]:
        """The step as a warp; none where it changes nothing."""
        step = self.resampling(rng, clip)
        return [] if step is None else compose([step], (clip.height, clip.width))


Step: TypeAlias = PixelTransform | GeometryStep


class Choice(PixelTransform):
    """A transform that carries out others, or not."""

    @property
    @abstractmethod
    def alternatives(self) -> Iterable[Sequence[Step]]:
        """All that may be carried out: each a list of transforms, empty for none."""

    @abstractmethod
    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> Sequence[Step]:
        """The transforms that one clip gets."""


ConversionStep: TypeAlias = GeometryStep | ViewStep | Choice


def is_axis_aligned(transform: Transform) -> TypeGuard[ConversionStep]:
    """Whether conversion can carry a transform out: a crop, resize, flip or border, several views, a choice of such."""
    if isinstance(transform, Choice):
        return all(is_axis_aligned(each) for alternative in transform.alternatives for each in alternative)
    return isinstance(transform, (GeometryStep, ViewStep))
