"""Merges consecutive geometric transforms: their matrices are multiplied and frames are resampled once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.errors import ConfigurationError
from videoloader.errors.notes import note
from videoloader.padding import check_mode
from videoloader.transforms.geometry.resampling import Resampling, Size, compose, of_geometry
from videoloader.transforms.operations import IN_TRANSFORM, ClipInfo, PixelTransform, Transform, Warp
from videoloader.transforms.planning.fused_geometry import steps_with_border
from videoloader.transforms.planning.steps import Choice, GeometryStep, Step, WarpStep, planned_by, single_steps


@dataclass(frozen=True)
class GeometricGroup(PixelTransform):
    """Geometric transforms merged into one pixel transform with one resampling; see ``resampling.compose``.

    Args:
        transforms: steps in the order in which they apply; see ``is_geometric``.

    Raises:
        ConfigurationError: one of them has a border that is not a colour.

    Examples:
        >>> group = GeometricGroup((Rotate((-10, 10)), CenterCrop(200), RandomHorizontalFlip()))
    """

    transforms: tuple[Step, ...]

    def __post_init__(self) -> None:
        for transform in self.transforms:
            for step in steps_with_border(transform):
                if check_mode(step.mode) != "constant":
                    told = f"{type(step).__name__} must have mode='constant' where it follows"
                    raise ConfigurationError(f"{told} transforms of pixels or another border")

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Warp]:
        """Return one warp, none if nothing changes, or two if one cannot express the result."""
        steps: list[Resampling] = []
        size = clip.height, clip.width
        for transform in self.transforms:
            with note(IN_TRANSFORM, transform):
                size = _draw(transform, rng, clip, size, steps)
        return compose(steps, (clip.height, clip.width))


def is_geometric(transform: Transform) -> bool:
    """Whether a transform only moves pixels: crops, resizes, flips, borders, warps, and choices of these."""
    return all(isinstance(each, (GeometryStep, WarpStep)) for each in single_steps(transform))


def group_geometric(transforms: Iterable[Step]) -> list[PixelTransform]:
    """The list with each run of consecutive geometric transforms replaced by a ``GeometricGroup``."""
    grouped: list[PixelTransform] = []
    for geometric, run in groupby(transforms, is_geometric):
        if geometric:
            grouped.append(GeometricGroup(tuple(run)))
        else:
            grouped += run  # type: ignore[arg-type]  # all geometry steps are geometric
    return grouped


def output_size(transforms: Iterable[Step], size: Size) -> Size:
    """(height, width) of frames after transforms, whatever these draw. Transforms that are not geometric keep the size.

    Raises:
        ConfigurationError: the size depends on what is drawn, a crop is larger than the frames, or frames are larger
            than the size that they are padded to.
    """
    for transform in transforms:
        if isinstance(transform, Choice):
            sizes = {output_size(alternative, size) for alternative in transform.alternatives}
            if len(sizes) > 1:
                names = [
                    " + ".join(type(each).__name__ for each in alternative) or "nothing"
                    for alternative in transform.alternatives
                ]
                raise ConfigurationError(
                    f"{type(transform).__name__} of {', '.join(names)} gives frames of {sorted(sizes)}: "
                    "clips of one batch need frames of one size"
                )
            (size,) = sizes
        elif isinstance(transform, GeometricGroup):
            size = output_size(transform.transforms, size)
        elif isinstance(transform, GeometryStep):
            # Random draws move a crop but do not change its size.
            with note(IN_TRANSFORM, transform):
                size = planned_by(transform, transform.plan(_whole(size), np.random.default_rng(0))).output_size
    return size


def _draw(transform: Step, rng: np.random.Generator, clip: ClipInfo, size: Size, steps: list[Resampling]) -> Size:
    """Append what a transform draws, and return the size of frames after it."""
    clip = clip._replace(height=size[0], width=size[1])
    if isinstance(transform, Choice):
        for each in transform.choose(rng, clip):
            with note(IN_TRANSFORM, each):
                size = _draw(each, rng, clip, size, steps)
    elif isinstance(transform, GeometryStep):
        steps.append(of_geometry(transform.plan_clip(_whole(size), rng, clip), size))
        size = steps[-1].size
    elif isinstance(transform, WarpStep):
        step = transform.resampling(rng, clip)
        if step is not None:
            steps.append(step)
    return size


def _whole(size: Size) -> Geometry:
    return Geometry((0, 0, *size), size)
