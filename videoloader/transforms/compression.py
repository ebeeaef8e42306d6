"""``JpegCompression``: JPEG's lossy round trip in integer arithmetic, the same on every device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.errors.checks import check_choice
from videoloader.transforms.backends.parts import for_all_frames
from videoloader.transforms.curves import Range, check_range, draw_range_by_frame
from videoloader.transforms.operations import BatchFunction, ClipInfo, Params, PixelTransform, checked

Chroma: TypeAlias = Literal["4:2:0", "4:4:4"]

# ITU-T T.81 (1992), tables K.1 and K.2: quantisation of luminance and chrominance, row by row.
_LUMINANCE = np.array([
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
])  # fmt: skip
# Chrominance has steps of its own only for low frequencies.
_CHROMINANCE = np.pad(
    [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]], (0, 4), constant_values=99
).ravel()

# The DCT of an 8×8 block (T.81 A.3.3) with integer factors: √8 · 2^13 times the orthonormal one in each direction.
# Products and sums stay below 2^53, so float64 holds them exactly, whatever the order of a matrix product.
_BITS = 13


def _dct() -> npt.NDArray[np.float64]:
    frequency, place = np.arange(8)[:, None], np.arange(8)
    waves = np.sqrt(2) * np.cos((2 * place + 1) * frequency * np.pi / 16)
    waves[0] = 1
    factors: npt.NDArray[np.float64] = np.round(waves * 2**_BITS)
    return factors


_DCT = np.kron(_dct(), _dct())
_SCALE = 8.0 * 4**_BITS


@dataclass(frozen=True)
class JpegCompression(PixelTransform):
    """Add JPEG artefacts to frames: blocks, ringing and blurred colours.

    It follows JFIF and ITU-T T.81, with the tables of its Annex K scaled by the quality as libjpeg does, and libjpeg's
    smooth upsampling of chroma. The pixels are nearly equal to those of a file that Pillow wrote with the same quality.

    Args:
        quality: number, (low, high) or curve, default (30, 95). The quality, 1 … 100, rounded to whole numbers.
        chroma: str, default ``"4:2:0"``. ``"4:2:0"`` halves chroma in both directions, ``"4:4:4"`` keeps it.

    Raises:
        ConfigurationError: the quality is outside [1, 100], or there is no such chroma.

    Examples:
        >>> transforms = [JpegCompression((30, 90))]
    """

    quality: Range = field(default=(30, 95), metadata=checked(check_range, 1, 100))
    chroma: Chroma = field(default="4:2:0", kw_only=True, metadata=checked(check_choice, get_args(Chroma)))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return one round trip, with one quality for the clip or one for each frame."""
        quality = np.floor(draw_range_by_frame(self.quality, rng, clip.length) + 0.5).astype(np.int64)
        function = compress_420 if self.chroma == "4:2:0" else compress_444
        return [BatchFunction(function, {"quality": quality}, by_frame=("quality",))]


def compress_420(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``JpegCompression`` with chroma at half resolution.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: ``quality`` int64[N, T].
    """
    return _compress(frames, params["quality"], halves_chroma=True)


def compress_444(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``JpegCompression`` with chroma at full resolution; see ``compress_420``."""
    return _compress(frames, params["quality"], halves_chroma=False)


def quantisation(quality: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Tables of luminance and chrominance, int64[n, 64], for qualities int64[n] (libjpeg's ``jpeg_set_quality``)."""
    percent = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)[:, None]
    luminance, chrominance = (((table * percent + 50) // 100).clip(1, 255) for table in (_LUMINANCE, _CHROMINANCE))
    return luminance, chrominance


def _compress(frames: torch.Tensor, quality: npt.NDArray[np.int64], *, halves_chroma: bool) -> torch.Tensor:
    # The tables go to the GPU as bytes: copying more than 64 KiB of unpinned memory may wait for the GPU.
    tables = [torch.from_numpy(table.astype(np.uint8)) for table in quantisation(quality.reshape(-1))]
    luminance, chrominance = (table.to(frames.device, non_blocking=True).to(torch.float64) for table in tables)
    dct = torch.from_numpy(_DCT).to(frames.device, non_blocking=True)

    def compress(part: torch.Tensor, which: slice) -> torch.Tensor:
        height, width = part.shape[2:]
        y, cb, cr = _to_ycbcr(part)
        y = _quantise(y, luminance[which], dct)
        cb, cr = (_halve(plane) if halves_chroma else plane for plane in (cb, cr))
        cb, cr = (_quantise(plane, chrominance[which], dct) for plane in (cb, cr))
        cb, cr = (_double(plane, height, width) if halves_chroma else plane for plane in (cb, cr))
        return _to_rgb(y, cb, cr)

    return for_all_frames(frames, compress)


def _quantise(plane: torch.Tensor, table: torch.Tensor, dct: torch.Tensor) -> torch.Tensor:
    """int32[n, h, w]: each block transformed, with coefficients rounded to multiples of the table's, and back."""
    height, width = plane.shape[1:]
    plane = _extend(_extend(plane, 1, 8), 2, 8)
    blocks = plane.sub(128).view(-1, plane.shape[1] // 8, 8, plane.shape[2] // 8, 8).permute(0, 1, 3, 2, 4)
    steps = table[:, None, None]
    # Halves are rounded away from zero, as in libjpeg.
    found = blocks.to(torch.float64).flatten(3) @ dct.T / (steps * _SCALE)
    kept: torch.Tensor = found.abs().add_(0.5).floor_().copysign_(found) * steps
    pixels: torch.Tensor = (kept @ dct / _SCALE).add_(128.5).floor_().clamp_(0, 255).to(torch.int32)
    blocks = pixels.view(blocks.shape).permute(0, 1, 3, 2, 4)
    return blocks.reshape(plane.shape)[:, :height, :width]


def _extend(plane: torch.Tensor, axis: int, multiple: int) -> torch.Tensor:
    """Repeat the last row or column up to a multiple of a number."""
    size = plane.shape[axis]
    missing = -size % multiple
    return _taken(plane, axis, range(size + missing)) if missing else plane


def _taken(plane: torch.Tensor, axis: int, places: range) -> torch.Tensor:
    """The rows or columns at these positions; outside, the first and the last repeat."""
    inside = torch.arange(places.start, places.stop, device=plane.device).clamp_(0, plane.shape[axis] - 1)
    return plane.index_select(axis, inside)


def _halve(plane: torch.Tensor) -> torch.Tensor:
    """Means of 2×2 pixels; halves are rounded down and up in turn, so that the overall brightness stays the same."""
    # The last blocks are filled with the picture's last column and the last row of means, as in libjpeg.
    plane = _extend(_extend(plane, 1, 2), 2, 16)
    total = plane[:, 0::2, 0::2] + plane[:, 0::2, 1::2] + plane[:, 1::2, 0::2] + plane[:, 1::2, 1::2]
    return (total + 1 + torch.arange(total.shape[2], dtype=torch.int32, device=plane.device) % 2) >> 2


def _double(plane: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Double the size in both directions, cropped to [height, width]: 3/4 of the nearest pixel and 1/4 of the next."""
    plane = plane[:, : (height + 1) // 2, : (width + 1) // 2]
    above, below = (_taken(plane, 1, range(by, plane.shape[1] + by)) for by in (-1, 1))
    rows = torch.stack([3 * plane + above, 3 * plane + below], 2).flatten(1, 2)
    left, right = (_taken(rows, 2, range(by, rows.shape[2] + by)) for by in (-1, 1))
    doubled = torch.stack([(3 * rows + left + 8) >> 4, (3 * rows + right + 7) >> 4], 3).flatten(2, 3)
    return doubled[:, :height, :width]


# JFIF's factors (ITU-T T.871, section 7: 0.299, 0.587, 0.114 and so on), times 2^16: for red, green and blue in Y, Cb
# and Cr, and for the way back.
_TO_YCBCR = ((19595, 38470, 7471), (-11058, -21710, 32768), (32768, -27439, -5329))
_RED_OF_CR, _GREEN_OF_CR, _GREEN_OF_CB, _BLUE_OF_CB = 91881, 46802, 22553, 116130
_HALF = 1 << 15


def _to_ycbcr(frames: torch.Tensor) -> list[torch.Tensor]:
    """Three int32[n, H, W] from uint8[n, 3, H, W], rounded; halves of chroma are rounded down."""
    red, green, blue = frames.to(torch.int32).unbind(1)
    middle = (128 << 16) + _HALF - 1
    return [
        (of_red * red + of_green * green + of_blue * blue + offset) >> 16
        for (of_red, of_green, of_blue), offset in zip(_TO_YCBCR, (_HALF, middle, middle), strict=True)
    ]


def _to_rgb(y: torch.Tensor, cb: torch.Tensor, cr: torch.Tensor) -> torch.Tensor:
    """uint8[n, 3, H, W] from three int32[n, H, W]."""
    cb, cr = cb - 128, cr - 128
    red = y + ((_RED_OF_CR * cr + _HALF) >> 16)
    green = y + ((_HALF - _GREEN_OF_CR * cr - _GREEN_OF_CB * cb) >> 16)
    blue = y + ((_BLUE_OF_CB * cb + _HALF) >> 16)
    return torch.stack([red, green, blue], 1).clamp_(0, 255).to(torch.uint8)
