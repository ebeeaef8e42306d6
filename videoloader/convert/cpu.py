"""Conversion of libav's frames on the CPU: libswscale makes RGB of the part wanted, torch resizes it.

libswscale is exact to half a code and faster than numpy, in two calls that do not hold the GIL. But it
has weak sides (versions 8 and 9): it stretches chroma over an odd size instead of keeping its sites, ignores
the chroma site of yuvj formats, misplaces chroma in pictures under 8 pixels, scales deep full-range codes by
2ⁿ instead of 2ⁿ−1, and its 8-bit output overflows where R or B reach 2. So it is given a copy of the part
wanted, in a plain format and a size that it handles, and asked for 16 bits where 8 fail.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import av
import av.error
import av.filter
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Box, ColorSpec, Geometry, OutputSpec, source_view
from videoloader.errors import ConfigurationError, UnsupportedError

Samples = npt.NDArray[Any]
Image = npt.NDArray[np.uint8]

# Chroma subsampling by the size of a 16×16 picture's chroma planes.
_SUBSAMPLING = {
    (8, 8): "420", (8, 16): "422", (16, 16): "444", (16, 8): "440", (4, 16): "411", (4, 4): "410",
}  # fmt: skip
_FLAGS = "flags=bilinear+accurate_rnd+full_chroma_int+full_chroma_inp:threads=1"
# What a decoder says of a frame's colours must not make libswscale convert where it only has to repack.
_NO_COLORS = "range=unknown:colorspace=unknown:color_primaries=unknown:color_trc=unknown"
_SMALLEST_CHROMA = 4
# libswscale's sums overflow at 2.0; some room for its rounding.
_OVERFLOW = 1.98


class _Scaler(NamedTuple):
    """A filter graph from one format and size to planar RGB, and the frame to fill for it."""

    graph: av.filter.Graph
    frame: av.VideoFrame


class _PerThread(threading.local):
    """A filter graph serves one thread at a time. One made anew for each crop costs 0.3 ms."""

    def __init__(self) -> None:
        self.repacker = lru_cache(4)(_make_graph)
        self.scaler = lru_cache(4)(_make_scaler)


def convert_frame(
    frame: av.VideoFrame,
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    slot: torch.Tensor,
) -> None:
    """Write a decoded frame into a batch slot as RGB.

    In this order: chroma to full resolution (bilinear, by its site), matrix, clamp to [0, 1]; rotation,
    mirroring; crop; resize; flip; number type. The resize is PyTorch's ``interpolate(mode="bilinear",
    antialias=True, align_corners=False)``: triangle weights as wide as the scale, cut off at the crop's
    border and normalised. Intermediate RGB has 8 bits, so a result is within 2/255 of exact. Alpha is
    dropped. Interlaced chroma is taken as progressive.

    Args:
        frame: any pixel format of libav that lies in memory.
        color: see ``color_spec``; ``matrix`` and ``chroma_site`` matter for Y'CbCr formats only, ``full_range``
            for these and for gray.
        rotation: degrees clockwise a player turns the picture: 0, 90, 180 or 270.
        mirrored: whether it is turned left to right after the rotation.
        geometry: in pixels after rotation and mirroring.
        output: number type and normalisation.
        slot: [3, H, W] on the CPU with ``output.dtype``, any strides; H, W must be ``geometry.output_size``.

    Raises:
        ConfigurationError: the slot does not fit, the crop reaches outside the frame, or the matrix is
            identity and the frame is Y'CbCr.
        UnsupportedError: the frame is on a GPU, or libswscale does not know its format.
    """
    if slot.shape != (3, *geometry.output_size) or slot.dtype != output.dtype or slot.device.type != "cpu":
        raise ConfigurationError(
            f"slot is {slot.dtype} {list(slot.shape)} on {slot.device}, "
            f"not {output.dtype} {[3, *geometry.output_size]} on the CPU"
        )
    view = source_view(geometry, rotation, mirrored, frame.height, frame.width)
    try:
        image = _resize(_to_rgb(frame, color, view.crop), view.size)
    except av.error.FFmpegError as error:
        raise UnsupportedError(f"libswscale does not convert {frame.format.name}: {error.strerror}") from error
    top, left, height, width = view.window
    image = np.rot90(image[:, top : top + height, left : left + width], -view.turns, (1, 2))
    if view.flip:
        image = image[:, :, ::-1]
    target = slot.numpy()
    if output.dtype == torch.uint8:
        target[...] = image
        return
    scale, shift = output.scale_shift()
    values = image * (scale / np.float32(255)).reshape(3, 1, 1)
    values += shift.reshape(3, 1, 1)
    target[...] = values


def _resize(image: Image, size: tuple[int, int]) -> Image:
    if image.shape[1:] == size:
        return image
    if size[1] == 1:
        # Torch's path for uint8 is wrong for a single column: that one is summed here, and stands eight times.
        width = image.shape[2]
        weights = 1 - np.abs(np.arange(width) + 0.5 - width / 2) / width
        column = _to_8_bits(image @ (weights / weights.sum()), 1.0)
        return _resize(np.repeat(column[:, :, None], 8, 2), (size[0], 8))[:, :, :1]
    # On uint8 this is a single-threaded integer path, far faster than on floats.
    pixels = torch.from_numpy(image)[None]
    resized = torch.nn.functional.interpolate(pixels, size, mode="bilinear", align_corners=False, antialias=True)
    return np.asarray(resized[0].numpy())


def _to_rgb(frame: av.VideoFrame, color: ColorSpec, box: Box) -> Image:
    """A (top, left, height, width) part of a frame, uint8[3, h, w]; uint8[1, h, w] where R, G and B are equal."""
    pixels = frame.format
    bits = [component.bits for component in pixels.components]
    if not bits:
        raise UnsupportedError(f"a frame of format {pixels.name} does not lie in memory")
    depth = max(bits)
    top, left, height, width = box
    crop = np.s_[top : top + height, left : left + width]
    if pixels.is_rgb or pixels.has_palette or pixels.name.startswith("xyz"):
        if depth > 8:
            deep = _repack(frame, "gbrp16le")
            return _to_8_bits(np.stack([_plane(deep, i)[crop] for i in (2, 0, 1)]), 255 / 65535)
        return np.ascontiguousarray(_plane(_repack(frame, "rgb24"), 0, 3)[crop]).transpose(2, 0, 1)
    if len(bits) <= 2:
        depth = 8 if depth <= 8 else 16
        gray = _plane(_repack(frame, "gray" if depth == 8 else "gray16le"), 0)[crop]
        m, b = ColorSpec("identity", color.full_range).rgb_from_codes(depth)
        return _to_8_bits(gray[None], 255 * m.max(), 255 * b[0])
    return _yuv_to_rgb(frame, color, box, depth)


def _yuv_to_rgb(frame: av.VideoFrame, color: ColorSpec, box: Box, depth: int) -> Image:
    if color.matrix == "identity":
        raise ConfigurationError(f"matrix is 'identity', but the frame is {frame.format.name}, not RGB")
    chroma_size = frame.format.chroma_width(16), frame.format.chroma_height(16)
    name = f"yuv{_SUBSAMPLING[chroma_size]}p" + (f"{depth}le" if depth > 8 else "")
    if frame.format.name.replace("yuvj", "yuv").replace("yuva", "yuv") != name:
        frame = _repack(frame, name)
    luma, cb, cr = (_plane(frame, i) for i in range(3))
    step_x, step_y = 16 // chroma_size[0], 16 // chroma_size[1]
    top, left, height, width = box
    # In chroma samples, one more on each side for the interpolation.
    first_row, last_row = max(top // step_y - 1, 0), (top + height - 1) // step_y + 2
    first_column, last_column = max(left // step_x - 1, 0), (left + width - 1) // step_x + 2
    y, x = first_row * step_y, first_column * step_x
    luma = luma[y : last_row * step_y, x : last_column * step_x]
    cb, cr = (plane[first_row:last_row, first_column:last_column] for plane in (cb, cr))
    deep, white = _deep_output(luma, cb, cr, color, depth)
    chroma_rows, chroma_columns = (max(size, _SMALLEST_CHROMA) for size in cb.shape)
    graph, staging = _per_thread.scaler(name, chroma_rows * step_y, chroma_columns * step_x, color, deep)
    for i, part in enumerate((luma, cb, cr)):
        _fill(_plane(staging, i), part)
    graph.vpush(staging)
    scaled = graph.vpull()
    rgb = np.stack([_plane(scaled, i)[top - y :, left - x :][:height, :width] for i in (2, 0, 1)])
    return _to_8_bits(rgb, 255 / white) if deep else rgb


def _deep_output(luma: Samples, cb: Samples, cr: Samples, color: ColorSpec, depth: int) -> tuple[bool, int]:
    """Whether these samples need the 16-bit output of libswscale, and what white is in it."""
    if color.full_range:
        return depth > 8, 65536 - (65536 >> depth)
    m, b = color.rgb_from_codes(depth)
    largest = m @ np.array([luma.max(), cb.max(), cr.max()], np.float64) + b
    return bool(max(largest[0], largest[2]) > _OVERFLOW), 255 << 8


def _to_8_bits(samples: Samples, scale: float, shift: float = 0.0) -> Image:
    values = samples * np.float32(scale)
    values += np.float32(shift + 0.5)
    return np.clip(values, 0, 255).astype(np.uint8)


def _plane(frame: av.VideoFrame, index: int, channels: int = 1) -> Samples:
    """A plane as [height, width] or [height, width, channels], a view of the frame's memory."""
    plane = frame.planes[index]
    deep = frame.format.components[index].bits > 8
    samples: Samples = np.frombuffer(memoryview(plane), np.dtype("u2" if deep else "u1"))
    rows = samples.reshape(plane.height, -1)[:, : plane.width * channels]
    rows = rows if plane.line_size > 0 else rows[::-1]
    return rows if channels == 1 else rows.reshape(plane.height, plane.width, channels)


def _fill(plane: Samples, part: Samples) -> None:
    """Copy to the top left and repeat the last column and row over the rest."""
    height, width = part.shape
    plane[:height, :width] = part
    plane[:height, width:] = part[:, -1:]
    plane[height:] = plane[height - 1]


def _repack(frame: av.VideoFrame, name: str) -> av.VideoFrame:
    """The same samples in another layout; nothing is lost."""
    if frame.format.name == name:
        return frame
    filters = (("setparams", _NO_COLORS), ("scale", _FLAGS), ("format", name))
    graph = _per_thread.repacker(frame.format.name, frame.height, frame.width, filters)
    graph.vpush(frame)
    return graph.vpull()


def _make_scaler(pixels: str, height: int, width: int, color: ColorSpec, deep: bool) -> _Scaler:
    colors = (
        f"in_color_matrix={color.matrix}:in_range={'pc' if color.full_range else 'tv'}"
        f":in_chroma_loc={color.chroma_site}"
    )
    filters = (("scale", f"{_FLAGS}:{colors}"), ("format", "gbrp16le" if deep else "gbrp"))
    frame = av.VideoFrame(width, height, pixels)
    frame.pts = 0
    return _Scaler(_make_graph(pixels, height, width, filters), frame)


def _make_graph(pixels: str, height: int, width: int, filters: tuple[tuple[str, str], ...]) -> av.filter.Graph:
    graph = av.filter.Graph()
    source = graph.add_buffer(width=width, height=height, format=av.VideoFormat(pixels), time_base=Fraction(1))
    chain = [graph.add(name, args) for name, args in filters]
    graph.link_nodes(source, *chain, graph.add("buffersink"))
    graph.configure()
    return graph


_per_thread = _PerThread()
