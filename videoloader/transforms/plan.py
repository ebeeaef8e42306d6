"""From a list of transforms to the one conversion that carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch

from videoloader.convert import Color, Geometry, OutputSpec
from videoloader.errors import ConfigurationError
from videoloader.transforms.borders import Letterbox, Pad, PadToMultiple
from videoloader.transforms.geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from videoloader.transforms.normalize import Normalize

Transform: TypeAlias = (
    Resize | CenterCrop | RandomResizedCrop | RandomHorizontalFlip | Letterbox | Pad | PadToMultiple | Normalize
)


def plan_geometry(transforms: Sequence[Transform], display_size: tuple[int, int], rng: np.random.Generator) -> Geometry:
    """The crop, resize, flip and border that a clip's transforms add up to.

    Args:
        transforms: in the order in which they apply.
        display_size: (height, width) of the video's frames as a player shows them.
        rng: the clip's own generator; each random transform draws from it in turn.

    Raises:
        ConfigurationError: a crop is larger than the frames, or the frames are larger than what they are padded to; or
            frames are padded before they are cropped, resized or padded again.
    """
    _check_order(transforms)
    geometry = Geometry((0, 0, *display_size), display_size)
    for transform in transforms:
        if not isinstance(transform, Normalize):
            geometry = transform.plan(geometry, rng)
    return geometry


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


def _check_order(transforms: Sequence[Transform]) -> None:
    padded = None
    for transform in transforms:
        if padded is not None and not isinstance(transform, RandomHorizontalFlip | Normalize):
            raise ConfigurationError(
                f"{type(transform).__name__} comes after {padded}, which must come last: only RandomHorizontalFlip and "
                "Normalize may follow"
            )
        if isinstance(transform, Letterbox | Pad | PadToMultiple):
            padded = type(transform).__name__
