"""Makes the operations of automatic augmentation from their names and magnitudes; nothing is random here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from videoloader.convert.spec import Interpolation
from videoloader.transforms import color_operations as to
from videoloader.transforms.geometry.warp_matrices import Matrices, rotation, shear, translation
from videoloader.transforms.operations import Operation, Warp

Fill = tuple[float, float, float]

# Operations that change values. They get the magnitude as float64[1].
_COLOR: Mapping[str, Callable[[to.Values], Operation]] = {
    "auto_contrast": lambda nothing: to.auto_contrast(per_frame=False),
    "equalize": lambda nothing: to.equalize(per_frame=False),
    "invert": lambda nothing: to.invert(),
    "brightness": lambda more: to.brightness(1 + more),
    "color": lambda more: to.saturation(1 + more),
    "contrast": lambda more: to.contrast(1 + more, per_frame=False),
    "sharpness": lambda more: to.sharpness(1 + more),
    # With 0 bits a clip would be black.
    "posterize": lambda bits: to.posterize(np.maximum(np.round(bits), 1).astype(np.int64)),
    "solarize": to.solarize,
    "solarize_add": lambda addend: to.solarize_add(addend, np.array([128.0])),
}
# The matrices of operations that move pixels. They get the magnitude and the frames' (height, width).
GEOMETRIC: Mapping[str, Callable[[float, tuple[int, int]], Matrices]] = {
    "shear_x": lambda tangent, size: shear(tangent, 0, (0, 0)),
    "shear_y": lambda tangent, size: shear(0, tangent, (0, 0)),
    "translate_x": lambda right, size: translation(right, 0),
    "translate_y": lambda down, size: translation(0, down),
    "rotate": lambda degrees, size: rotation(degrees, (size[1] / 2, size[0] / 2)),
}


# Magnitudes have few bins, so most clips find their tables in the cache.
@lru_cache(maxsize=2048)
def color_operations(name: str, magnitude: float | None) -> Sequence[Operation]:
    """An operation that changes values.

    Args:
        name: name of an operation that is not in ``GEOMETRIC``.
        magnitude: brightness, color, contrast and sharpness add it to the factor 1; posterize keeps that many bits, at
            least 1; for solarize it is the threshold, for solarize_add the addend, and for the others None.
    """
    if name == "identity":
        return ()
    return (_COLOR[name](np.array([0.0 if magnitude is None else magnitude])),)


@lru_cache(maxsize=2048)
def warps(
    name: str, magnitude: float, size: tuple[int, int], interpolation: Interpolation, fill: Fill
) -> Sequence[Operation]:
    """An operation that moves pixels.

    Args:
        name: name of an operation in ``GEOMETRIC``.
        magnitude: the tangent of a shear, about the top left corner as published; the pixels of a translation, to the
            right or down; or the degrees of a rotation, counter-clockwise about the middle.
        size: (height, width) of the frames, before and after.
        interpolation, fill: see ``Warp``.
    """
    return (Warp(GEOMETRIC[name](magnitude, size), size, interpolation, fill),)
