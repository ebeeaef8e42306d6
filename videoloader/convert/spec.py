"""Specify a conversion: the source's colours, the part of the picture wanted, and the output's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import av
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.border import Border
from videoloader.convert.rounding import to_uint8
from videoloader.errors import ConfigurationError, UnsupportedError
from videoloader.errors.checks import check, check_choice, given
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.stream_info import StreamInfo

Box = tuple[int, int, int, int]
Samples = npt.NDArray[Any]
Matrix = Literal["identity", "bt709", "fcc", "bt601", "smpte240m", "bt2020"]
ChromaSite = Literal["left", "center", "topleft", "top", "bottomleft", "bottom"]
Interpolation = Literal["bilinear", "bicubic", "nearest"]
_INTERPOLATIONS = frozenset(get_args(Interpolation))
Color = Literal["rgb", "ycbcr"]
Layout = Literal["TCHW", "CTHW", "THWC"]

# ITU-T H.273, table 4: MatrixCoefficients. 3 is reserved, as in table 3, and is read like 2, "unspecified".
_MATRICES: dict[int, Matrix] = {
    0: "identity", 1: "bt709", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m", 9: "bt2020",
}  # fmt: skip
_UNSPECIFIED = (2, 3)
_KR_KB: dict[str, tuple[float, float]] = {
    "bt709": (0.2126, 0.0722),
    "fcc": (0.30, 0.11),
    "bt601": (0.299, 0.114),
    "smpte240m": (0.212, 0.087),
    "bt2020": (0.2627, 0.0593),
}
# In the order of ChromaLocType (H.273, clause 8.7): the first chroma sample's offset from the first luma sample,
# (horizontal, vertical), in units of the distance from the first to the last of the luma samples that share one chroma
# sample.
_SITES: dict[ChromaSite, tuple[float, float]] = {
    "left": (0.0, 0.5),
    "center": (0.5, 0.5),
    "topleft": (0.0, 0.0),
    "top": (0.5, 0.0),
    "bottomleft": (0.0, 1.0),
    "bottom": (0.5, 1.0),
}
# The standards of these codecs put 4:2:0 chroma in the middle of its four luma samples: JFIF 1.02, ISO/IEC 11172-2
# (MPEG-1), ITU-T H.261 and H.263 (from which Sorenson Spark derives), Theora I, TIFF 6.0; and so does libwebp. All
# others follow MPEG-2: left.
_CENTERED_CODECS = ("mjpeg", "mpeg1video", "h261", "h263", "flv1", "vp3", "theora", "tiff", "webp")


@dataclass(frozen=True)
class ColorSpec:
    """The meaning of a picture's samples as colours.

    Attributes:
        matrix: name from ITU-T H.273, table 4; ``"identity"`` means that the planes hold G, B, R. BT.2020 means its
            non-constant luminance form.
        full_range: whether samples use all codes (``0 … 2ⁿ−1``), not the studio range (16 … 235 and 240 at 8 bits).
        chroma_site: position of subsampled chroma (H.273, ChromaLocType 0 to 5). It has no meaning along an axis that
            is not subsampled.
    """

    matrix: Matrix
    full_range: bool
    chroma_site: ChromaSite = "left"

    def __post_init__(self) -> None:
        check_choice("matrix", self.matrix, ("identity", *_KR_KB))
        check_choice("chroma_site", self.chroma_site, _SITES)

    def rgb_from_codes(self, bit_depth: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return ``m``, float64[3, 3], and ``b``, float64[3]: ``m @ (Y, Cb, Cr codes) + b`` is RGB before clamping.

        This is H.273, clause 8.3 (quantisation and matrix), solved for R, G, B in [0, 1].
        """
        unit = 2.0 ** (bit_depth - 8)
        white = 256 * unit - 1
        luma, black, chroma = (white, 0.0, white) if self.full_range else (219 * unit, 16 * unit, 224 * unit)
        if self.matrix == "identity":
            m = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]) / luma
            return m, m @ np.full(3, -black)
        kr, kb = _KR_KB[self.matrix]
        kg = 1 - kr - kb
        m = np.array(
            [[1, 0, 2 * (1 - kr)], [1, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg], [1, 2 * (1 - kb), 0]]
        ) / np.array([luma, chroma, chroma])
        return m, m @ -np.array([black, 128 * unit, 128 * unit])

    def chroma_offset(self) -> tuple[float, float]:
        """Return (x, y) of the first chroma sample of 4:2:0 in luma samples: 0, 0.5 or 1."""
        return _SITES[self.chroma_site]


def color_spec(stream: StreamInfo, frame: av.VideoFrame | None = None) -> ColorSpec:
    """Return the colours of a video's pictures.

    Matrix and range are each taken from the first that specifies it: the decoded frame (if given), the codec's own
    header, the container. That is the order of libavformat and libavcodec, so a frame and its stream agree unless the
    video changes its colours on the way. If none specifies it:

    - matrix: BT.601 for any size, as in libswscale. Identity counts only without chroma
      subsampling, as H.273 requires.
    - range: studio range; but full range for ``yuvj`` and gray pixel formats, with alpha or without (libavutil's
      convention).
    - RGB, and Y'CbCr with the identity matrix, is full range whatever the flag says: encoders set it
      arbitrarily, and libswscale ignores it.
    - chroma site: that of 4:2:0 in the header of H.264, HEVC or AV1. All others have MPEG-2's (left), but codecs
      whose standard says so have centre.

    Primaries and transfer curve are not converted: HDR pictures come out as they are coded.

    Args:
        stream: stream of the video.
        frame: a decoded frame of it.

    Raises:
        UnsupportedError: the matrix is one that no 3×3 matrix describes, or YCgCo.
    """
    header = picture_format(stream)
    site: ChromaSite = "center" if stream.codec in _CENTERED_CODECS else _site_of(header)
    pixels = frame.format.name if frame else stream.pixel_format
    if frame and (frame.format.is_rgb or frame.format.has_palette):
        return ColorSpec("identity", True, site)
    codes = (int(frame.colorspace) if frame else 2, header.color_matrix if header else 2, stream.color_matrix)
    code = next((code for code in codes if code not in _UNSPECIFIED), 5)
    if code not in _MATRICES:
        raise UnsupportedError(f"colour matrix {code} of H.273 is not supported")
    if code == 0 and not frame and (header.chroma if header else stream.chroma) == "444":
        return ColorSpec("identity", True, site)
    ranges = (
        {1: False, 2: True}.get(int(frame.color_range)) if frame else None,
        header.full_range if header else None,
        {"limited": False, "full": True}.get(stream.color_range),
    )
    full = next((full for full in ranges if full is not None), pixels.startswith(("gray", "ya")))
    return ColorSpec(_MATRICES[code or 5], full or pixels.startswith("yuvj"), site)


def _site_of(header: PictureFormat | None) -> ChromaSite:
    sites = tuple(_SITES)
    stated = header.chroma_site if header and header.chroma == "420" else 0
    return sites[stated] if stated < len(sites) else "left"


@dataclass(frozen=True)
class Geometry:
    """The wanted part of the shown picture, and its size.

    Attributes:
        crop: (top, left, height, width) in display pixels, that is, after rotation and mirroring.
        size: (height, width) that the crop is resized to, in pixels.
        flip: whether to flip the output left to right.
        window: (top, left, height, width) of the part of the resized crop to output; None for all of it. Pixels at the
            window's edge are resampled from beyond it, as if the window were cut out afterwards.
        interpolation: filter of the resize: ``"bilinear"`` (triangle), ``"bicubic"`` (Keys 1981, with a = −0.5 with
            ``antialias`` and −0.75 without, as in PyTorch) or ``"nearest"`` (source pixel ``floor(i · scale)``).
        antialias: whether to widen the filter by the scale where the picture gets smaller. It has no effect on nearest.
        border: border around the picture in the output. Conversions write only the picture; the border is filled
            separately.
        flip_vertical: whether to flip the output upside down.
    """

    crop: Box
    size: tuple[int, int]
    flip: bool = False
    window: Box | None = None
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    border: Border | None = None
    flip_vertical: bool = False

    def __post_init__(self) -> None:
        check_choice("interpolation", self.interpolation, _INTERPOLATIONS)
        top, left, height, width = self.crop
        if top < 0 or left < 0 or height < 1 or width < 1:
            raise ConfigurationError(f"crop is {self.crop}: it must have a positive size and start at 0 or later")
        if min(self.size) < 1:
            raise ConfigurationError(f"size must be positive, got {self.size}")
        if self.window is not None:
            top, left, height, width = self.window
            inside = top + height <= self.size[0] and left + width <= self.size[1]
            if top < 0 or left < 0 or height < 1 or width < 1 or not inside:
                raise ConfigurationError(f"window must be a part of the size {self.size}, got {self.window}")

    @property
    def picture_size(self) -> tuple[int, int]:
        """(height, width) of the picture in the output, in pixels."""
        return self.size if self.window is None else self.window[2:]

    @property
    def output_size(self) -> tuple[int, int]:
        """(height, width) of the output with its border, in pixels."""
        height, width = self.picture_size
        if self.border is None:
            return height, width
        return self.border.top + height + self.border.bottom, self.border.left + width + self.border.right


def full_geometry(stream: StreamInfo) -> Geometry:
    """Return the geometry of the whole picture at its own size."""
    height, width = stream.display_size
    return Geometry((0, 0, height, width), (height, width))


# The number types of the output, with their names in kernels, in the order of ``enum Output`` in convert.cpp.
OUTPUT_TYPES = {
    torch.uint8: "unsigned char", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "float",
}  # fmt: skip


@dataclass(frozen=True)
class OutputSpec:
    """The number type, normalisation and colours of the output.

    Attributes:
        dtype: ``torch.uint8`` gives 0 … 255, rounded to nearest, halves up; ``torch.float16``, ``torch.bfloat16`` and
            ``torch.float32`` give [0, 1], normalised if ``mean`` and ``std`` are given.
        mean, std: values for the three channels; a float output is ``(value − mean) / std``, as in torchvision.
        color: ``"rgb"``, or ``"ycbcr"`` for the samples as they are coded, with chroma at the size of luma, but without
            a matrix or a change of range. A value is the n-bit code divided by 2ⁿ − 1. RGB sources have no such
            samples.
        fill_value: red, green and blue of frames of constant padding, each 0 … 255 for any kind of output: they are
            converted and normalised like any other pixel.
    """

    dtype: torch.dtype = torch.uint8
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    color: Color = "rgb"
    fill_value: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, tuple(OUTPUT_TYPES))
        check_choice("color", self.color, get_args(Color))
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and self.dtype == torch.uint8:
                raise ConfigurationError(f"{name} is given, but uint8 output cannot be normalised")
            check(name, values, values is None or len(values) == 3, "3 numbers")
        check("std", self.std, self.std is None or min(self.std) > 0, "positive")
        in_range = len(self.fill_value) == 3 and all(0 <= value <= 255 for value in self.fill_value)
        check("fill_value", self.fill_value, in_range, "three numbers in [0, 255]")

    def scale_shift(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return float32[3] each, so that a float output is ``value · scale + shift`` for a value in [0, 1]."""
        std = np.array(self.std or (1, 1, 1), np.float64)
        return (1 / std).astype(np.float32), (-np.array(self.mean or (0, 0, 0)) / std).astype(np.float32)


def fill_color(value: float | Sequence[float], name: str = "fill_value") -> tuple[float, float, float]:
    """Return the colour for a fill value, which is one number for all channels or one for each.

    Args:
        value: the user's value.
        name: the argument's name, for the message: ``"Pad's fill"``.

    Raises:
        ConfigurationError: the value is neither, is outside [0, 255], or seems to be in [0, 1] by mistake.
    """
    try:
        values = [float(each) for each in islice(value, 4)] if isinstance(value, Iterable) else [float(value)] * 3
        red, green, blue = OutputSpec(fill_value=tuple(values)).fill_value  # type: ignore[arg-type]
    except (ConfigurationError, OverflowError, TypeError, ValueError, RuntimeError):  # RuntimeError: of a tensor
        raise ConfigurationError(f"{name} must be one or three numbers in [0, 255], got {given(value)}") from None
    # A single float 1.0 is taken for white on a scale of 1. Three 1.0 may also be what a saved integer 1 has become.
    looks_whole = isinstance(value, Iterable | Integral) and all(each % 1 == 0 for each in values)
    if 0 < max(values) <= 1 and not looks_whole:
        raise ConfigurationError(f"{name} takes values from 0 to 255, got {value!r}: multiply it by 255")
    return red, green, blue


def fill_pixel(stream: StreamInfo, color: ColorSpec, output: OutputSpec) -> tuple[float, float, float]:
    """Return a pixel of constant padding for frames of a video, as values of the output."""
    value: Samples = np.array(output.fill_value) / 255
    if output.color == "ycbcr":
        header = picture_format(stream)
        depth = (header.bit_depth if header else stream.bit_depth) or 8
        matrix, offset = color.rgb_from_codes(depth)
        # In full range, the chroma of pure blue and red lies half a code beyond the last one.
        value = np.linalg.solve(matrix, value - offset).clip(0, 2**depth - 1) / (2**depth - 1)
    value = to_uint8(value * 255) if output.dtype == torch.uint8 else value
    scale, shift = output.scale_shift()
    first, second, third = (value * scale + shift).tolist()
    return first, second, third


class Conversion(NamedTuple):
    """The way in which the decoded pictures of a video become pixels of a clip.

    The order of operations: chroma to full resolution (bilinear, by its site), matrix, clamp to [0, 1]; rotation,
    mirroring; crop; resize, clamp; flips; number type. The resize is PyTorch's ``interpolate`` with
    ``align_corners=False``. Alpha is dropped. Interlaced chroma is treated as progressive.

    Attributes:
        color: see ``color_spec``. Matrix and chroma site matter only for Y'CbCr pictures, the range for these and for
            gray. Identity is only for pictures without chroma subsampling.
        rotation: degrees clockwise that a player turns the picture: 0, 90, 180 or 270.
        mirrored: whether the picture is flipped left to right after the rotation.
        geometry: crop, size and flips, in pixels after rotation and mirroring.
        output: number type, normalisation, RGB or Y'CbCr. Gray has neutral chroma.
    """

    color: ColorSpec
    rotation: int
    mirrored: bool
    geometry: Geometry
    output: OutputSpec


@dataclass(frozen=True)
class SourceView:
    """A ``Geometry`` in terms of the decoded picture, before rotation, mirroring and flips.

    Attributes:
        crop: (top, left, height, width) in pixels of the decoded picture.
        size: (height, width) to resize the crop to.
        window: (top, left, height, width) of the part of that to keep.
        turns: quarter turns clockwise to apply to the window. Upside down is half a turn and a flip left to right.
        flip: whether to flip it left to right after that.
        backward: whether (rows, columns) are shown from last to first, apart from the geometry's own flips. A resize
            that is not symmetric, such as nearest, must count from there.
    """

    crop: Box
    size: tuple[int, int]
    window: Box
    turns: int
    flip: bool
    backward: tuple[bool, bool]


def hdr_transfer(stream: StreamInfo) -> Literal["pq", "hlg"] | None:
    """Return the transfer curve of an HDR video, which conversion does not change; None for other videos.

    ITU-T H.273, table 3: 16 is PQ (SMPTE ST 2084), 18 is HLG (ARIB STD-B67). The codec's own header decides, or else
    the container.
    """
    header = picture_format(stream)
    codes = (header.color_transfer if header else 2, stream.color_transfer)
    code = next((code for code in codes if code not in _UNSPECIFIED), 2)
    curves: dict[int, Literal["pq", "hlg"]] = {16: "pq", 18: "hlg"}
    return curves.get(code)


@lru_cache(256)
def source_view(geometry: Geometry, rotation: int, mirrored: bool, height: int, width: int) -> SourceView:
    """Express a geometry before mirroring and rotation, which commute with a symmetric resize.

    Args:
        geometry: crop, size and flips in display pixels.
        rotation: degrees clockwise that a player turns the picture: 0, 90, 180 or 270.
        mirrored: whether the picture is flipped left to right after the rotation.
        height, width: size of the decoded picture.

    Raises:
        ConfigurationError: the rotation is none of these or the crop reaches outside the picture.
    """
    check_choice("rotation", rotation, (0, 90, 180, 270))
    sideways = rotation in (90, 270)
    shown = (width, height) if sideways else (height, width)
    top, left, rows, columns = geometry.crop
    if top + rows > shown[0] or left + columns > shown[1]:
        raise ConfigurationError(f"crop {geometry.crop} reaches outside the picture of {shown[0]}×{shown[1]}")
    return SourceView(
        _before_turning(geometry.crop, rotation, mirrored, shown),
        (geometry.size[1], geometry.size[0]) if sideways else geometry.size,
        _before_turning(geometry.window or (0, 0, *geometry.size), rotation, mirrored, geometry.size),
        (rotation // 90 + 2 * geometry.flip_vertical) % 4,
        (geometry.flip != mirrored) != geometry.flip_vertical,
        ((rotation in (90, 180)) != (mirrored and sideways), (rotation in (180, 270)) != (mirrored and not sideways)),
    )


def _before_turning(box: Box, rotation: int, mirrored: bool, shown: tuple[int, int]) -> Box:
    """Return where a box of a turned and mirrored picture of (height, width) ``shown`` was before."""
    top, left, height, width = box
    bottom, right = shown[0] - top - height, shown[1] - left - width
    if mirrored:
        left, right = right, left
    # A clockwise quarter turn makes the bottom edge the left one, and the left edge the top one.
    if rotation == 90:
        return right, top, width, height
    if rotation == 180:
        return bottom, right, height, width
    if rotation == 270:
        return left, bottom, width, height
    return top, left, height, width


def shape_in(layout: Layout, length: int, height: int, width: int) -> tuple[int, ...]:
    """The sizes of a clip's dimensions, in the order of a layout."""
    sizes = {"T": length, "C": 3, "H": height, "W": width}
    return tuple(sizes[axis] for axis in layout)


def as_planes(frames: torch.Tensor, layout: Layout) -> torch.Tensor:
    """[…, T, 3, H, W]: a view of frames whose last four dimensions have the order of a layout."""
    return frames.permute(_places_of_planes(layout, frames.ndim - 4))


@cache
def _places_of_planes(layout: Layout, before: int) -> tuple[int, ...]:
    return *range(before), *(before + layout.index(axis) for axis in "TCHW")
