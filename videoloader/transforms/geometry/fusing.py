"""The steps that fuse into conversion. Each takes the geometry planned so far and adds itself to it.

Nothing is resampled here: the steps of a clip combine into one geometry, which conversion carries out at once.
"""

from __future__ import annotations

from dataclasses import replace

from videoloader.convert.spec import Geometry, Interpolation
from videoloader.errors import ConfigurationError


def cut(geometry: Geometry, top: int, left: int, height: int, width: int) -> Geometry:
    """Crop the current output to a box.

    Raises:
        ConfigurationError: the box reaches outside.
    """
    rows, columns = geometry.output_size
    if top < 0 or left < 0 or top + height > rows or left + width > columns:
        place = f" at row {top}, column {left}" if height <= rows and width <= columns else ""
        raise ConfigurationError(f"a crop of {height}×{width}{place} does not fit into frames of {rows}×{columns}")
    if geometry.flip:
        left = columns - left - width
    if geometry.flip_vertical:
        top = rows - top - height
    if geometry.window is None and geometry.size == geometry.crop[2:]:
        # Nothing is resized yet: cropping the source is equivalent and reads less.
        return replace(
            geometry, crop=(geometry.crop[0] + top, geometry.crop[1] + left, height, width), size=(height, width)
        )
    window = geometry.window or (0, 0, *geometry.size)
    return replace(geometry, window=(window[0] + top, window[1] + left, height, width))


def cut_at(geometry: Geometry, size: tuple[int, int], down: float, across: float) -> Geometry:
    """Crop the current output to a size.

    Args:
        geometry: the geometry planned so far.
        size: (height, width) of the crop.
        down, across: its place: the shares, 0 to 1, of the remaining rows above it and columns to its left.

    Raises:
        ConfigurationError: the frames are smaller than the crop.
    """
    (rows, columns), (height, width) = geometry.output_size, size
    return cut(geometry, round(down * (rows - height)), round(across * (columns - width)), height, width)


def resize_to(geometry: Geometry, size: tuple[int, int], interpolation: Interpolation, antialias: bool) -> Geometry:
    """Resize the current output to ``size``."""
    # The window of an earlier resize is rounded to whole pixels of the source.
    top, left, height, width = geometry.window or (0, 0, *geometry.size)
    crop_top, crop_left, rows, columns = geometry.crop
    down, across = rows / geometry.size[0], columns / geometry.size[1]
    y0, x0 = round(top * down), round(left * across)
    y1, x1 = max(round((top + height) * down), y0 + 1), max(round((left + width) * across), x0 + 1)
    crop = crop_top + y0, crop_left + x0, y1 - y0, x1 - x0
    return replace(geometry, crop=crop, size=size, window=None, interpolation=interpolation, antialias=antialias)
