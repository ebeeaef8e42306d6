"""Describe where the samples of a picture lie, for NVDEC's surfaces and for libavcodec's frames."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from videoloader.errors import ConfigurationError

NvdecFormat = Literal["nv12", "p016", "yuv444", "yuv444_16"]
Model = Literal["ycbcr", "rgb", "gray"]


class SurfaceLayout(NamedTuple):
    """The positions of a picture's samples. Offsets and pitches are in samples; rows go from top to bottom.

    Attributes:
        width, height: size of the picture in pixels.
        bit_depth: bits of a code.
        sample_bytes: bytes of a sample, 1 or 2.
        code_shift: number of bits below the code in a sample: 0 if the code is in the low bits, as is usual in libav.
        model: meaning of the three components: Y, Cb, Cr; or G, B, R; or Y alone.
        subsampling: log2 of the luma columns and of the luma rows that share a chroma sample.
        pitch: distance from a luma sample to the one below it.
        chroma_pitch: the same for chroma.
        chroma_step: distance from a chroma sample to the one right of it; 2 if Cb and Cr are interleaved.
        cb, cr: distance from the first luma sample to the first Cb and Cr sample; 0 for gray.
        luma_step: distance from a luma sample to the one right of it; more than 1 if pixels are packed.
    """

    width: int
    height: int
    bit_depth: int
    sample_bytes: int
    code_shift: int
    model: Model
    subsampling: tuple[int, int]
    pitch: int
    chroma_pitch: int
    chroma_step: int
    cb: int
    cr: int
    luma_step: int = 1

    @property
    def chroma_size(self) -> tuple[int, int]:
        """(height, width) of the chroma planes in samples."""
        return _halved(self.height, self.subsampling[1]), _halved(self.width, self.subsampling[0])

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last sample of the picture."""
        samples = self.pitch * (self.height - 1) + self.width * self.luma_step
        if self.model != "gray":
            rows, columns = self.chroma_size
            last = max(self.cb, self.cr) + self.chroma_pitch * (rows - 1) + self.chroma_step * (columns - 1)
            samples = max(samples, last + 1)
        return samples * self.sample_bytes


class CudaSurface(NamedTuple):
    """A decoded picture in GPU memory.

    Attributes:
        pointer: device address of the first luma sample, or of the first G.
        layout: layout of the other samples.
        owner: object that keeps the memory alive.
    """

    pointer: int
    layout: SurfaceLayout
    owner: object = None


class PixelFormat(NamedTuple):
    """A pixel format of libav whose components are planes, or luma and interleaved chroma, or packed RGB or gray.

    Attributes:
        model, subsampling, bit_depth, code_shift: see ``SurfaceLayout``.
        planes: number of planes, without alpha: 1, 2 or 3.
        swapped: whether Cr comes before Cb.
        packed: the components of a pixel in the order in which they lie side by side, such as ``"rgba"``, or ``"ya"``
            for gray with alpha; empty where components have planes.
    """

    model: Model
    subsampling: tuple[int, int]
    bit_depth: int
    code_shift: int
    planes: int
    swapped: bool = False
    packed: str = ""


_SUBSAMPLING = {"420": (1, 1), "422": (1, 0), "440": (0, 1), "444": (0, 0), "411": (2, 0), "410": (2, 2)}
_DEPTH = r"(?:(9|10|12|14|16)le)?"
_PLANAR = re.compile(r"yuv[aj]?(420|422|440|444|411|410)p" + _DEPTH)
_RGB = re.compile("gbra?p" + _DEPTH)
_GRAY = re.compile("gray" + _DEPTH)
_SEMIPLANAR = {"nv12": "420", "nv21": "420", "nv16": "422", "nv24": "444", "nv42": "444"}
_HIGH_BITS = re.compile(r"p([024])(10|12|16)le")
_PACKED = re.compile("(rgb|bgr)24|(rgba|bgra|argb|abgr|rgb0|bgr0|0rgb|0bgr)|(ya)8")
_PACKED_16 = re.compile("(rgb|bgr)48le|(rgba|bgra)64le|(ya)16le")


@lru_cache(256)
def pixel_format(name: str) -> PixelFormat | None:
    """Return the pixel format of a libav name; None if packed Y'CbCr, with palette, Bayer, float or big-endian."""
    if match := _PLANAR.fullmatch(name):
        return PixelFormat("ycbcr", _SUBSAMPLING[match[1]], int(match[2] or 8), 0, 3)
    if match := _RGB.fullmatch(name):
        return PixelFormat("rgb", (0, 0), int(match[1] or 8), 0, 3)
    if match := _GRAY.fullmatch(name):
        return PixelFormat("gray", (0, 0), int(match[1] or 8), 0, 1)
    if name in _SEMIPLANAR:
        return PixelFormat("ycbcr", _SUBSAMPLING[_SEMIPLANAR[name]], 8, 0, 2, name in ("nv21", "nv42"))
    if name == "nv20le":
        return PixelFormat("ycbcr", (1, 0), 10, 0, 2)
    if match := _HIGH_BITS.fullmatch(name):
        chroma = {"0": "420", "2": "422", "4": "444"}[match[1]]
        return PixelFormat("ycbcr", _SUBSAMPLING[chroma], int(match[2]), 16 - int(match[2]), 2)
    for depth, pattern in ((8, _PACKED), (16, _PACKED_16)):
        if match := pattern.fullmatch(name):
            packed = "".join(match.groups(""))
            return PixelFormat("gray" if packed == "ya" else "rgb", (0, 0), depth, 0, 1, packed=packed)
    return None


@lru_cache(1024)
def planes_layout(
    pixels: PixelFormat, width: int, height: int, pitches: tuple[int, ...] | None = None
) -> tuple[SurfaceLayout, list[range]]:
    """Return the layout of a picture whose planes follow one another, and the byte range of each plane, without alpha.

    Args:
        pixels: format of the picture.
        width, height: size of the picture in pixels.
        pitches: bytes from row to row in each plane, the same for Cb and Cr; None for rows without gaps.
    """
    size = 1 if pixels.bit_depth == 8 else 2
    step = 2 if pixels.planes == 2 else 1
    columns, rows = _halved(width, pixels.subsampling[0]) * step, _halved(height, pixels.subsampling[1])
    luma_step = len(pixels.packed) or 1
    shapes = [(height, width * luma_step), *[(rows, columns)] * (pixels.planes - 1)]
    ranges, begin = [], 0
    for plane, (lines, samples) in enumerate(shapes):
        pitch = pitches[plane] if pitches else samples * size
        ranges.append(range(begin, begin + pitch * (lines - 1) + samples * size))
        begin += pitch * lines
    cb, cr = (ranges[1].start // size, ranges[-1].start // size + step - 1) if pixels.planes > 1 else (0, 0)
    luma_pitch, chroma_pitch = (pitches[0] // size, pitches[-1] // size) if pitches else (width * luma_step, columns)
    layout = SurfaceLayout(
        width, height, pixels.bit_depth, size, pixels.code_shift, pixels.model, pixels.subsampling, luma_pitch,
        chroma_pitch, step, cr if pixels.swapped else cb, cb if pixels.swapped else cr, luma_step,
    )  # fmt: skip
    return layout, ranges


def nvdec_layout(width: int, height: int, pitch: int, pixels: NvdecFormat, bit_depth: int) -> SurfaceLayout:
    """Return the layout of NVDEC's surfaces as PyNvVideoCodec outputs them.

    The planes follow one another without a gap: ``height`` rows of luma, then for ``nv12`` and ``p016`` ``⌈height /
    2⌉`` rows of interleaved Cb and Cr (4:2:0), for ``yuv444`` and ``yuv444_16`` ``height`` rows of Cb and as many of
    Cr.

    Args:
        width, height: size of the picture in pixels.
        pitch: bytes from row to row; the same in all planes.
        pixels: ``p016`` and ``yuv444_16`` have 16-bit samples with the code in the high bits, the others 8-bit.
        bit_depth: bits of a code.

    Raises:
        ConfigurationError: the pitch is not a whole number of samples.
    """
    size = 1 if pixels in ("nv12", "yuv444") else 2
    pitch, rest = divmod(pitch, size)
    if rest:
        raise ConfigurationError(f"pitch is {size * pitch + rest} bytes, which does not fit {pixels}")
    planar = pixels in ("yuv444", "yuv444_16")
    return SurfaceLayout(
        width, height, bit_depth, size, 8 * size - bit_depth, "ycbcr", (0, 0) if planar else (1, 1),
        pitch, pitch, 1 if planar else 2, pitch * height, 2 * pitch * height if planar else pitch * height + 1,
    )  # fmt: skip


def _halved(length: int, times: int) -> int:
    """Halve a length, rounding up each time as subsampled planes do."""
    return -(-length >> times)
