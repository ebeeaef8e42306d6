"""Resize pictures as PyTorch's ``interpolate`` does, computing only the part that is needed."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.filters import FILTERS
from videoloader.convert.rounding import to_uint8
from videoloader.convert.spec import Box, Interpolation, Samples

# PyTorch (2.13) fails on narrower uint8 pictures, and is wrong for a single column of floats.
_NARROWEST = 8


def resize(image: Samples, size: tuple[int, int], interpolation: Interpolation, antialias: bool) -> Samples:
    """Resize a picture with any interpolation except ``"nearest"``.

    For uint8 this is PyTorch's single-threaded integer code, which is several times as fast as for floats. It expects
    the channels of a pixel side by side in memory.

    Args:
        image: [C, h, w], uint8 or float32 in [0, 1].
        size: (height, width) in pixels.
        interpolation, antialias: see ``Geometry``.

    Returns:
        [C, *size] of the same type. Where bicubic leaves the range, values are clamped.
    """
    if image.shape[1:] == size:
        return image
    if min(image.shape[2], size[1]) < _NARROWEST:
        resized = _resize_narrow(image, size, interpolation, antialias)
    else:
        pixels = torch.from_numpy(image)[None]
        resized = torch.nn.functional.interpolate(
            pixels, size, mode=interpolation, align_corners=False, antialias=antialias
        )[0].numpy()
    clamped = FILTERS[interpolation].overshoots
    result: Samples = resized.clip(0, 255 if image.dtype == np.uint8 else 1) if clamped else resized
    return result if result.dtype == image.dtype else to_uint8(result)


def _resize_narrow(image: Samples, size: tuple[int, int], interpolation: Interpolation, antialias: bool) -> Samples:
    """Resize with the arithmetic that PyTorch intends, in float32."""
    rows, columns = (filter_weights(image.shape[1 + axis], size[axis], interpolation, antialias) for axis in (0, 1))
    resized: Samples = rows @ (image @ columns.T)
    return resized


def filter_weights(source: int, target: int, interpolation: Interpolation, antialias: bool) -> npt.NDArray[np.float32]:
    """Return the weights of source pixels in each target pixel along one axis, except for ``"nearest"``.

    With antialias, filters are truncated at the border; without it, the edge pixel is repeated.

    Returns:
        float32[target, source].
    """
    scale, (reach, _, weights_at, _) = source / target, FILTERS[interpolation]
    assert weights_at is not None, "nearest copies pixels"
    widening = max(scale, 1) if antialias else 1
    centers = scale * (np.arange(target) + 0.5)
    margin = 0 if antialias else reach
    x = np.abs(np.arange(-margin, source + margin) + 0.5 - centers[:, None]) / widening
    weights = weights_at(x, antialias)
    if margin:
        weights[:, margin] += weights[:, :margin].sum(1)
        weights[:, -margin - 1] += weights[:, -margin:].sum(1)
        weights = weights[:, margin:-margin]
    normalised: npt.NDArray[np.float32] = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return normalised


def take_nearest(image: Samples, size: tuple[int, int], window: Box) -> Samples:
    """Return the window of a [C, h, w] picture resized by nearest, which copies source pixels."""
    top, left, height, width = window
    rows = nearest_pixels(image.shape[1], size[0])[top : top + height, None]
    columns = nearest_pixels(image.shape[2], size[1])[left : left + width]
    taken: Samples = image[:, rows, columns]
    return taken


def nearest_pixels(source: int, target: int) -> npt.NDArray[np.int64]:
    """Return the source pixel that each target pixel shows along one axis, int64[target]."""
    # In float32, as PyTorch computes it: sometimes the product is just below the integer that it should be.
    pixels = np.arange(target, dtype=np.float32) * np.float32(source / target)
    return np.minimum(pixels.astype(np.int64), source - 1)


def central_pixels(source: int, target: int) -> npt.NDArray[np.int64]:
    """Return the source pixel that contains the centre of each target pixel along one axis, int64[target].

    This is PyTorch's ``"nearest-exact"``, and matches where interpolation samples a picture.
    """
    centers: npt.NDArray[np.int64] = (2 * np.arange(target) + 1) * source // (2 * target)
    return centers


@lru_cache(4096)
def needed_part(
    crop: Box, size: tuple[int, int], window: Box, interpolation: Interpolation
) -> tuple[Box, tuple[int, int], Box]:
    """Return the smallest (crop, size, window) with the same pixels in the window, at exactly the same scale.

    Both pictures are cut where a pixel border of one coincides with a pixel border of the other, far enough from the
    window that the cut does not affect it.
    """
    parts = [
        _needed_length(crop[2 + axis], size[axis], window[axis], window[axis] + window[2 + axis], interpolation)
        for axis in (0, 1)
    ]
    (top, bottom, first_row, last_row), (left, right, first_column, last_column) = parts
    return (
        (crop[0] + top, crop[1] + left, bottom - top, right - left),
        (last_row - first_row, last_column - first_column),
        (window[0] - first_row, window[1] - first_column, window[2], window[3]),
    )


def _needed_length(
    source: int, target: int, start: int, stop: int, interpolation: Interpolation
) -> tuple[int, int, int, int]:
    """Return (start, stop) in the source and (start, stop) in the target, along one axis."""
    if interpolation == "nearest":
        return 0, source, 0, target
    divisor = math.gcd(source, target)
    block_of_source, block = source // divisor, target // divisor
    reach = math.ceil(FILTERS[interpolation].reach * max(1, target / source)) + 1
    first = max(start - reach, 0) // block
    last = min(-(-(stop + reach) // block), divisor)
    return first * block_of_source, last * block_of_source, first * block, last * block
