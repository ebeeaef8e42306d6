"""The operations of automatic augmentation: what each of them is at a magnitude. Nothing is random here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from videoloader.convert import Interpolation
from videoloader.transforms import color_operations as to
from videoloader.transforms.geometry.warp_matrices import rotation, shear, translation
from videoloader.transforms.operations import Operation, Warp

GEOMETRIC = frozenset(("shear_x", "shear_y", "translate_x", "translate_y", "rotate"))

Fill = tuple[float, float, float]


# Magnitudes come in few bins: most clips find their tables made.
@lru_cache(maxsize=2048)
def color_operations(name: str, magnitude: float | None) -> Sequence[Operation]:
    """An operation that changes values.

    Args:
        name: of an operation that is not in ``GEOMETRIC``.
        magnitude: of brightness, color, contrast and sharpness what is added to the factor 1; of posterize the bits, at
            least 1 of which stays; of solarize the threshold; of solarize_add the addend; None for the others.

    Raises:
        ValueError: there is no such operation.
    """
    value = np.array([0.0 if magnitude is None else magnitude])
    match name:
        case "identity":
            return ()
        case "auto_contrast":
            return (to.auto_contrast(per_frame=False),)
        case "equalize":
            return (to.equalize(per_frame=False),)
        case "invert":
            return (to.invert(),)
        case "brightness":
            return (to.brightness(1 + value),)
        case "color":
            return (to.saturation(1 + value),)
        case "contrast":
            return (to.contrast(1 + value, per_frame=False),)
        case "sharpness":
            return (to.sharpness(1 + value),)
        case "posterize":
            # Without any bits a clip would be black.
            return (to.posterize(np.maximum(np.round(value), 1).astype(np.int64)),)
        case "solarize":
            return (to.solarize(value),)
        case "solarize_add":
            return (to.solarize_add(value, np.array([128.0])),)
    raise ValueError(name)


@lru_cache(maxsize=2048)
def warps(
    name: str, magnitude: float, size: tuple[int, int], interpolation: Interpolation, fill: Fill
) -> Sequence[Operation]:
    """An operation that moves pixels.

    Args:
        name: of an operation in ``GEOMETRIC``.
        magnitude: of shears the tangent, about the top left corner as published; of translations pixels to the right or
            down; of rotations degrees, counter-clockwise about the middle.
        size: (height, width) of the frames, which they keep.
        interpolation, fill: see ``Warp``.

    Raises:
        ValueError: there is no such operation.
    """
    height, width = size
    match name:
        case "shear_x":
            matrix = shear(magnitude, 0, (0, 0))
        case "shear_y":
            matrix = shear(0, magnitude, (0, 0))
        case "translate_x":
            matrix = translation(magnitude, 0)
        case "translate_y":
            matrix = translation(0, magnitude)
        case "rotate":
            matrix = rotation(magnitude, (width / 2, height / 2))
        case _:
            raise ValueError(name)
    return (Warp(matrix, size, interpolation, fill),)
