"""Each way to resize in float64, from the formulas that PyTorch's ``interpolate`` documents and its papers give.

Written tap by tap, where ``conversion`` works with the distances of pixels: a repeated edge is here an index that is
held, there a weight that is added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from convert import reference

from videoloader.convert.spec import ColorSpec, Geometry

Array = npt.NDArray[np.float64]


def keys(x: Array, a: float) -> Array:
    """The kernel of R. Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    x = np.abs(x)
    inner = (a + 2) * x**3 - (a + 3) * x**2 + 1
    outer = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))


def weights(source: int, target: int, interpolation: str, antialias: bool) -> Array:
    """[target, source] weights of one axis."""
    scale = source / target
    matrix = np.zeros((target, source))
    rows = np.arange(target)
    if interpolation == "nearest":
        nearest = np.floor(rows.astype(np.float32) * np.float32(scale)).astype(int)  # in PyTorch's precision
        matrix[rows, np.minimum(nearest, source - 1)] = 1
    elif antialias:
        widening = max(scale, 1.0)
        distance = (np.arange(source) + 0.5 - (rows[:, None] + 0.5) * scale) / widening
        matrix = np.maximum(1 - np.abs(distance), 0) if interpolation == "bilinear" else keys(distance, -0.5)
        matrix /= matrix.sum(1, keepdims=True)
    else:
        position = (rows + 0.5) * scale - 0.5
        before = np.floor(position).astype(int)
        for tap in (0, 1) if interpolation == "bilinear" else (-1, 0, 1, 2):
            away = position - before - tap
            weight = 1 - np.abs(away) if interpolation == "bilinear" else keys(away, -0.75)
            np.add.at(matrix, (rows, np.clip(before + tap, 0, source - 1)), weight)
    return matrix


def components(
    planes: Sequence[npt.NDArray[np.unsignedinteger]],
    model: str,
    color: ColorSpec,
    bit_depth: int,
    factors: tuple[int, int],
    wanted: str = "rgb",
) -> Array:
    """RGB or Y'CbCr in [0, 1] at full resolution, [3, H, W], of the planes of a picture.

    Args:
        model: ``"ycbcr"``, ``"rgb"`` (planes G, B, R) or ``"gray"`` (one plane).
    """
    height, width = planes[0].shape
    if model == "rgb":
        return reference.rgb(planes, matrix="identity", full_range=True, bit_depth=bit_depth)
    if model == "gray":
        planes = [planes[0], *[np.full((height, width), 1 << (bit_depth - 1), np.uint16)] * 2]
        factors = (1, 1)
    if wanted == "rgb":
        matrix = "bt709" if model == "gray" else color.matrix
        return reference.rgb(
            planes, matrix=matrix, full_range=color.full_range, site=color.chroma_site, bit_depth=bit_depth,
            factors=factors,
        )  # fmt: skip
    site_x, site_y = reference.SITES[color.chroma_site]
    luma, *chroma = (plane / (2.0**bit_depth - 1) for plane in planes)
    chroma = [reference.upsample(plane, height, factors[1], site_y, 0) for plane in chroma]
    return np.stack([luma, *[reference.upsample(plane, width, factors[0], site_x, 1) for plane in chroma]])


def picture(image: Array, geometry: Geometry, rotation: int = 0, mirrored: bool = False) -> Array:
    """Turn, mirror, crop, resize, clamp to [0, 1], crop to the window and flip a [3, H, W] image."""
    image = reference.picture(image, rotation=rotation, mirrored=mirrored, crop=geometry.crop)
    how = geometry.interpolation, geometry.antialias
    rows, columns = (
        weights(source, target, *how) for source, target in zip(image.shape[1:], geometry.size, strict=True)
    )
    image = np.clip(rows @ image @ columns.T, 0, 1)
    return reference.picture(image, window=geometry.window, flip=geometry.flip, flip_vertical=geometry.flip_vertical)
