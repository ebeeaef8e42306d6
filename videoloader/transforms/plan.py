"""From a list of transforms to the one conversion that carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch

from videoloader.convert import Color, Geometry, OutputSpec
from videoloader.errors import ConfigurationError
from videoloader.transforms.borders import Letterbox, Pad, PadToMultiple
from videoloader.transforms.crops import RandomCrop
from videoloader.transforms.flips import HorizontalFlip, RandomHorizontalFlip, RandomVerticalFlip, VerticalFlip
from videoloader.transforms.geometry import GeometryStep
from videoloader.transforms.normalize import Normalize
from videoloader.transforms.views import ViewStep

Transform: TypeAlias = GeometryStep | ViewStep | Normalize
_FLIPS = (HorizontalFlip, VerticalFlip, RandomHorizontalFlip, RandomVerticalFlip)


def plan_geometry(transforms: Sequence[Transform], display_size: tuple[int, int], rng: np.random.Generator) -> Geometry:
    """The crop, resize, flip and border that a clip's transforms add up to.

    Args:
        transforms: in the order in which they apply; none that makes several views.
        display_size: (height, width) of the video's frames as a player shows them.
        rng: the clip's own generator; each random transform draws from it in turn.

    Raises:
        ConfigurationError: a crop is larger than the frames, or the frames are larger than what they are padded to; or
            frames are padded before they are cropped, resized or padded again.
    """
    (geometry,) = plan_geometries(transforms, display_size, rng)
    return geometry


def plan_geometries(
    transforms: Sequence[Transform], display_size: tuple[int, int], rng: np.random.Generator
) -> list[Geometry]:
    """``plan_geometry`` for each view of a clip: ``views.count_views(transforms)`` of them, one where none is wanted.

    What comes before a step that makes views is drawn once, what comes after it for each view.
    """
    _check_order(transforms)
    geometries = [Geometry((0, 0, *display_size), display_size)]
    for transform in transforms:
        if isinstance(transform, ViewStep):
            geometries = [view for geometry in geometries for view in transform.plan_views(geometry, rng)]
        elif isinstance(transform, GeometryStep):
            geometries = [transform.plan(geometry, rng) for geometry in geometries]
    return geometries


def plan_output(transforms: Sequence[Transform], dtype: torch.dtype, color: Color = "rgb") -> OutputSpec:
    """The pixel values that the transforms ask for.

    Args:
        transforms: of which only Normalize matters.
        dtype, color: see ``OutputSpec``.

    Raises:
        ConfigurationError: more than one Normalize, one with uint8 output, a dtype or color that there is not, or
            frames are padded before they are cropped, resized or padded again.
    """
    _check_order(transforms)
    found = [transform for transform in transforms if isinstance(transform, Normalize)]
    if len(found) > 1:
        raise ConfigurationError("there is more than one Normalize among the transforms")
    mean, std = (found[0].mean, found[0].std) if found else (None, None)
    return OutputSpec(dtype, mean, std, color)


def split_conversion(transforms: Sequence[object]) -> tuple[list[GeometryStep | ViewStep], list[object]]:
    """The transforms that conversion carries out, and all after them.

    The first part is as long as steps are axis-aligned, which means that they have ``plan`` or ``plan_views``; after
    one that adds a border only flips are.

    Raises:
        ConfigurationError: a step among the rest makes several views.
    """
    first: list[GeometryStep | ViewStep] = []
    padded = False
    for transform in transforms:
        if not isinstance(transform, GeometryStep | ViewStep) or (padded and not isinstance(transform, _FLIPS)):
            break
        first.append(transform)
        padded = padded or adds_border(transform)
    rest = list(transforms[len(first) :])
    for late in rest:
        if isinstance(late, ViewStep):
            before = type(transforms[len(first)]).__name__
            raise ConfigurationError(
                f"{type(late).__name__} comes after {before}, or after a border: views are cut out before pixels change"
            )
    return first, rest


def adds_border(transform: object) -> bool:
    """Whether a step may surround the picture with a border."""
    return isinstance(transform, Letterbox | Pad | PadToMultiple) or (
        isinstance(transform, RandomCrop) and transform.adds_border
    )


def _check_order(transforms: Sequence[Transform]) -> None:
    padded = None
    for transform in transforms:
        if padded is not None and not isinstance(transform, (*_FLIPS, Normalize)):
            raise ConfigurationError(
                f"{type(transform).__name__} comes after {padded}, which must come last: only flips and Normalize may "
                "follow"
            )
        if adds_border(transform):
            padded = type(transform).__name__
