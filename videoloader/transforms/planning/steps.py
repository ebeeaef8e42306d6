"""Base classes of geometric transforms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.errors import no_method, wrong_result
from videoloader.errors.checks import both_ends, check_size
from videoloader.transforms.geometry.resampling import Resampling, compose
from videoloader.transforms.operations import ClipInfo, PixelTransform, Transform, Warp, checked


@dataclass(frozen=True)
class Sized(Transform):
    """A step with a given output size.

    Attributes:
        size: an int for a square, or (height, width).
    """

    size: int | tuple[int, int] = field(metadata=checked(check_size))

    @property
    def _sides(self) -> tuple[int, int]:
        """(height, width)."""
        return both_ends(self.size)


class GeometryStep(Transform):
    """A crop, resize, flip or border.

    Examples:
        A complete custom transform:

            class Square(vl.GeometryStep):
                def plan(self, geometry, rng):
                    return vl.CenterCrop(min(geometry.output_size)).plan(geometry, rng)
    """

    @abstractmethod
    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        raise no_method(self, "plan(self, geometry, rng), which gives a Geometry")

    def plan_clip(self, geometry: Geometry, rng: np.random.Generator, clip: ClipInfo) -> Geometry:
        """The same for steps that depend on more of the clip, such as its label or columns."""
        return self.plan(geometry, rng)


def planned_by(step: GeometryStep, planned: object) -> Geometry:
    """The geometry that a step, perhaps a user's, has planned. ConfigurationError if it is none."""
    if not isinstance(planned, Geometry):
        raise wrong_result(step, "plan", "a Geometry, as CenterCrop(32).plan(geometry, rng) does", planned)
    return planned


class ViewStep(Transform):
    """A step that makes several views of a clip.

    Attributes:
        views: number of views.
    """

    views: int

    @abstractmethod
    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The geometries of all views with this step added."""


class WarpStep(PixelTransform):
    """A rotation, affine map or perspective: frames keep their size."""

    @abstractmethod
    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling | None:
        """The step as drawn for one clip; None to leave it unchanged."""

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Warp]:
        """Return the step as a warp, or no operation if it changes nothing."""
        step = self.resampling(rng, clip)
        return [] if step is None else compose([step], (clip.height, clip.width))


Step: TypeAlias = PixelTransform | GeometryStep


class Choice(PixelTransform):
    """A transform that may apply others."""

    @property
    @abstractmethod
    def alternatives(self) -> Iterable[Sequence[Step]]:
        """Everything that may be applied: each item a list of transforms, empty for none."""

    @abstractmethod
    def choose(self, rng: np.random.Generator, clip: ClipInfo) -> Sequence[Step]:
        """The transforms to apply to one clip."""


ConversionStep: TypeAlias = GeometryStep | ViewStep | Choice


def single_steps(transform: Transform) -> Iterator[Transform]:
    """The transform itself, or all transforms that a choice may apply, including those of nested choices."""
    if isinstance(transform, Choice):
        for alternative in transform.alternatives:
            for each in alternative:
                yield from single_steps(each)
    else:
        yield transform


def is_axis_aligned(transform: Transform) -> TypeGuard[ConversionStep]:
    """Whether conversion can carry out a transform: a crop, resize, flip, border, views, or a choice of these."""
    return all(isinstance(each, (GeometryStep, ViewStep)) for each in single_steps(transform))
