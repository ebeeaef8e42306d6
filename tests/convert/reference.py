"""What a conversion must give, in float64 and written from the standards: slow, plain, shared by all its tests.

Sources: ITU-T H.273 (matrices, ranges, chroma sites), PyTorch's documentation of ``interpolate`` (with
``antialias=True`` filters are as wide as the scale and cut off at the border, without they repeat the edge).
"""

from __future__ import annotations

from collections.abc import Sequence

import av
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# H.273 table 4: K_R and K_B.
KR_KB = {
    "bt709": (0.2126, 0.0722),
    "fcc": (0.30, 0.11),
    "bt601": (0.299, 0.114),
    "smpte240m": (0.212, 0.087),
    "bt2020": (0.2627, 0.0593),
}

# H.273 clause 8.7, ChromaLocType: where chroma lies between the first (0) and the last (1) of the luma samples it
# belongs to, horizontally and vertically.
SITES = {
    "left": (0.0, 0.5),
    "center": (0.5, 0.5),
    "topleft": (0.0, 0.0),
    "top": (0.5, 0.0),
    "bottomleft": (0.0, 1.0),
    "bottom": (0.5, 1.0),
}


def upsample(plane: Array, length: int, factor: int, offset: float, axis: int) -> Array:
    """Linear interpolation of a chroma plane along one axis to ``length`` luma positions, edges held."""
    if factor == 1:
        return plane
    position = np.clip((np.arange(length) - offset * (factor - 1)) / factor, 0, plane.shape[axis] - 1)
    low = np.floor(position).astype(int)
    high = np.minimum(low + 1, plane.shape[axis] - 1)
    weight = (position - low).reshape((-1, 1) if axis == 0 else (1, -1))
    result: Array = plane.take(low, axis) * (1 - weight) + plane.take(high, axis) * weight
    return result


def rgb(
    planes: Sequence[npt.NDArray[np.unsignedinteger]],
    *,
    matrix: str,
    full_range: bool,
    site: str = "left",
    bit_depth: int = 8,
    factors: tuple[int, int] = (1, 1),
) -> Array:
    """Full-resolution RGB in [0, 1], shape [3, H, W], of Y, Cb, Cr planes of codes.

    Args:
        factors: horizontal and vertical chroma subsampling.
    """
    height, width = planes[0].shape
    unit = 2.0 ** (bit_depth - 8)
    if full_range:
        scale_y, offset_y, scale_c = 2.0**bit_depth - 1, 0.0, 2.0**bit_depth - 1
    else:
        scale_y, offset_y, scale_c = 219 * unit, 16 * unit, 224 * unit
    y = (planes[0].astype(np.float64) - offset_y) / scale_y
    if matrix == "identity":  # Y, Cb, Cr carry G, B, R
        g, b, r = ((plane.astype(np.float64) - offset_y) / scale_y for plane in planes)
        return np.clip(np.stack([r, g, b]), 0, 1)
    cb, cr = (
        upsample(
            upsample((plane.astype(np.float64) - 128 * unit) / scale_c, height, factors[1], SITES[site][1], 0),
            width,
            factors[0],
            SITES[site][0],
            1,
        )
        for plane in planes[1:]
    )
    kr, kb = KR_KB[matrix]
    red = y + 2 * (1 - kr) * cr
    blue = y + 2 * (1 - kb) * cb
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue]), 0, 1)


def ycbcr(
    planes: Sequence[npt.NDArray[np.unsignedinteger]],
    *,
    site: str = "left",
    bit_depth: int = 8,
    factors: tuple[int, int] = (1, 1),
) -> Array:
    """Full-resolution Y, Cb, Cr codes over the largest code, shape [3, H, W]."""
    height, width = planes[0].shape
    chroma = [
        upsample(
            upsample(plane.astype(np.float64), height, factors[1], SITES[site][1], 0),
            width,
            factors[0],
            SITES[site][0],
            1,
        )
        for plane in planes[1:]
    ]
    return np.stack([planes[0].astype(np.float64), *chroma]) / (2.0**bit_depth - 1)


def triangle(x: Array) -> Array:
    """The linear filter."""
    return np.maximum(1 - np.abs(x), 0)


def cubic(x: Array, a: float) -> Array:
    """Keys, "Cubic convolution interpolation for digital image processing" (1981), equation 4 with its parameter."""
    x = np.abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((x - 5) * x + 8) * x * a - 4 * a
    result: Array = np.where(x < 1, near, np.where(x < 2, far, 0))
    return result


def filter_matrix(source: int, target: int, interpolation: str = "bilinear", antialias: bool = True) -> Array:
    """[target, source] weights of one axis, as PyTorch's ``interpolate`` has them."""
    scale = source / target
    weights = np.zeros((target, source))
    if interpolation == "nearest":
        # PyTorch multiplies in float32.
        pixel = np.floor(np.arange(target, dtype=np.float32) * np.float32(scale)).astype(int)
        weights[np.arange(target), np.minimum(pixel, source - 1)] = 1
        return weights
    reach = 1 if interpolation == "bilinear" else 2
    widening = max(scale, 1.0) if antialias else 1.0
    for i in range(target):
        center = scale * (i + 0.5)
        if antialias:
            first = max(int(center - reach * widening + 0.5), 0)
            last = min(int(center + reach * widening + 0.5), source)
            taps = np.arange(first, last)
        else:  # edges are repeated
            taps = int(np.floor(center - 0.5)) + np.arange(1 - reach, 1 + reach)
        x = (taps - center + 0.5) / widening
        values = triangle(x) if interpolation == "bilinear" else cubic(x, -0.5 if antialias else -0.75)
        np.add.at(weights[i], np.clip(taps, 0, source - 1), values)
    weights /= weights.sum(1, keepdims=True)
    return weights


def picture(
    image: Array,
    *,
    rotation: int = 0,
    mirrored: bool = False,
    crop: tuple[int, int, int, int] | None = None,
    size: tuple[int, int] | None = None,
    window: tuple[int, int, int, int] | None = None,
    flip: bool = False,
    flip_vertical: bool = False,
    interpolation: str = "bilinear",
    antialias: bool = True,
) -> Array:
    """Turn, mirror, crop (top, left, height, width), resize, crop to the window and flip a [3, H, W] image."""
    image = np.rot90(image, -rotation // 90, axes=(1, 2))
    image = image[:, :, ::-1] if mirrored else image
    if crop:
        top, left, height, width = crop
        image = image[:, top : top + height, left : left + width]
    if size:
        rows, columns = (filter_matrix(image.shape[1 + axis], size[axis], interpolation, antialias) for axis in (0, 1))
        image = np.clip(rows @ image @ columns.T, 0, 1)
    if window:
        top, left, height, width = window
        image = image[:, top : top + height, left : left + width]
    return image[:, :: -1 if flip_vertical else 1, :: -1 if flip else 1]


def random_planes(
    rng: np.random.Generator,
    height: int,
    width: int,
    *,
    bit_depth: int = 8,
    factors: tuple[int, int] = (1, 1),
) -> list[npt.NDArray[np.uint16]]:
    """Y, Cb, Cr of uniformly random codes, illegal colours included."""
    chroma = (-(-height // factors[1]), -(-width // factors[0]))
    return [rng.integers(0, 1 << bit_depth, shape, dtype=np.uint16) for shape in ((height, width), chroma, chroma)]


def video_frame(planes: Sequence[npt.NDArray[np.unsignedinteger]], pixel_format: str) -> av.VideoFrame:
    """A frame of a planar format that holds these codes."""
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, pixel_format)
    for target, plane in zip(frame.planes, planes, strict=True):
        dtype = np.dtype("u2" if frame.format.components[0].bits > 8 else "u1")
        rows = np.frombuffer(memoryview(target), dtype).reshape(target.height, -1)
        rows[:, : target.width] = plane
    return frame
