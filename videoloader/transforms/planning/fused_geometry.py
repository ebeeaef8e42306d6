"""Fuses leading geometric transforms into one geometry, which a single conversion carries out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.errors import ConfigurationError
from videoloader.errors.notes import note
from videoloader.transforms.borders import Letterbox, Pad, PadToMultiple
from videoloader.transforms.crops import RandomCrop
from videoloader.transforms.flips import HorizontalFlip, RandomHorizontalFlip, RandomVerticalFlip, VerticalFlip
from videoloader.transforms.operations import IN_TRANSFORM, ClipInfo, Transform
from videoloader.transforms.planning.steps import (
    Choice,
    ConversionStep,
    GeometryStep,
    Step,
    ViewStep,
    is_axis_aligned,
    planned_by,
    single_steps,
)

Bordering: TypeAlias = Letterbox | Pad | PadToMultiple | RandomCrop
_FLIPS = (HorizontalFlip, VerticalFlip, RandomHorizontalFlip, RandomVerticalFlip)


def plan_geometries(
    transforms: Sequence[Transform],
    display_size: tuple[int, int],
    rng: np.random.Generator,
    clip: ClipInfo | None = None,
) -> list[Geometry]:
    """The combined crop, resize, flip and border of a clip's transforms, for each of its views.

    Steps before one that makes views are drawn once, and steps after it are drawn for each view.

    Args:
        transforms: the list from ``split_conversion``, in order of application.
        display_size: (height, width) of the video's displayed frames.
        rng: the clip's own generator; each random transform draws from it in turn.
        clip: facts for predicates; by default only the frames' size.

    Raises:
        ConfigurationError: a crop is larger than the frames, or the frames are larger than the size that they are
            padded to.
    """
    geometries = [Geometry((0, 0, *display_size), display_size)]
    for transform in transforms:
        with note(IN_TRANSFORM, transform):
            if isinstance(transform, ViewStep):
                geometries = [view for geometry in geometries for view in transform.plan_views(geometry, rng)]
            else:
                geometries = [_planned(transform, geometry, rng, clip or ClipInfo(0, 0, 0)) for geometry in geometries]
    return geometries


def _planned(transform: Transform, geometry: Geometry, rng: np.random.Generator, clip: ClipInfo) -> Geometry:
    if isinstance(transform, GeometryStep):
        return planned_by(transform, transform.plan_clip(geometry, rng, clip))
    height, width = geometry.output_size
    if is_axis_aligned(transform) and isinstance(transform, Choice):
        for each in transform.choose(rng, clip._replace(height=height, width=width)):
            with note(IN_TRANSFORM, each):
                geometry = _planned(each, geometry, rng, clip)
        return geometry
    raise ConfigurationError(f"{type(transform).__name__} is not a crop, resize, flip or border")


def split_conversion(transforms: Sequence[Step | ViewStep]) -> tuple[list[ConversionStep], list[Step]]:
    """Split transforms into those that conversion carries out, and the rest.

    The first part extends as far as steps are axis-aligned; see ``steps.is_axis_aligned``. After a border it can only
    contain flips.

    Raises:
        ConfigurationError: a step of the rest makes several views.
    """
    first: list[ConversionStep] = []
    padded = False
    for transform in transforms:
        if not is_axis_aligned(transform) or (padded and not _is_flip(transform)):
            break
        first.append(transform)
        padded = padded or bool(steps_with_border(transform))
    rest: list[Step] = []
    for late in transforms[len(first) :]:
        if not isinstance(late, ViewStep):
            rest.append(late)
        else:
            before = rest[0] if rest else first[-1]
            raise ConfigurationError(
                f"{type(late).__name__} comes after {type(before).__name__}: put transforms that make "
                "several views before those of pixels and borders"
            )
    return first, rest


def steps_with_border(transform: Transform) -> list[Bordering]:
    """The steps of a transform that may add a border."""
    return [
        each
        for each in single_steps(transform)
        if isinstance(each, Bordering) and (not isinstance(each, RandomCrop) or each.adds_border)
    ]


def _is_flip(transform: Transform) -> bool:
    return all(isinstance(each, _FLIPS) for each in single_steps(transform))
