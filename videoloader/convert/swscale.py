"""Part of a decoded frame to RGB or Y'CbCr at full resolution, by libswscale.

Two steps, in one filter graph that does not hold the GIL. libswscale's scaler brings chroma to luma's size, at 16 bits:
bilinearly, by its site. Its newer code (``unstable``, floats inside, since FFmpeg 8.1) then applies the matrix, clamps
and rounds; it is exact and three times as fast as the scaler's own way to RGB, but takes 4:4:4 only.

The scaler has weak sides (versions 8 to 10): it stretches chroma over an odd size instead of keeping its sites, ignores
the chroma site of yuvj formats, misplaces chroma in pictures under 8 pixels, and widens full-range codes by 2ⁿ instead
of 2ⁿ−1. The newer code writes past rows that are no multiple of the pixels it does at once. So they are given a copy of
the part wanted, in a plain format and a size that they handle, widened already or set right afterwards where it is too
dark.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import av
import av.filter
import numpy as np

from videoloader.convert.spec import Box, Color, ColorSpec, Samples
from videoloader.errors import ConfigurationError, UnsupportedError

# Chroma subsampling by the size of a 16×16 picture's chroma planes.
_SUBSAMPLING = {
    (8, 8): "420", (8, 16): "422", (16, 16): "444", (16, 8): "440", (4, 16): "411", (4, 4): "410",
}  # fmt: skip
# Those of them, besides 4:4:4, that libav has formats of 16 bits for.
_WITH_16_BITS = ((8, 8), (8, 16))
_SCALER = "flags=bilinear:threads=1"
_EXACT = "flags=unstable+bilinear+accurate_rnd:sws_dither=none:threads=1"
# With the same names on both sides nothing is converted.
_SAME_COLORS = "in_color_matrix=bt709:out_color_matrix=bt709:in_range=tv:out_range=tv"
# What a decoder says of a frame's colours must not make libswscale convert where it only has to repack.
_NO_COLORS = "range=unknown:colorspace=unknown:color_primaries=unknown:color_trc=unknown"
# Pixels that libswscale's newer code does at once, on processors with the widest registers.
_BLOCK = 64
# Rows are rounded up to so many, so that pictures of many sizes share few converters.
_ROW_BLOCK = 64
# Of converters that a thread keeps, together: about 10 bytes each. But this many at least, whatever their size.
_KEPT_PIXELS, _LEAST_KEPT = 4 << 20, 4


class FormatFacts(NamedTuple):
    """The facts that libav has about a pixel format, asked for once: each answer is a new object.

    Attributes:
        bits: bits of each component; none where frames do not lie in memory.
        chroma_size: (width, height) of the chroma planes of a 16×16 picture.
        is_rgb: whether its samples are colours, or numbers of them, not Y'CbCr or gray.
    """

    bits: tuple[int, ...]
    chroma_size: tuple[int, int]
    is_rgb: bool


@lru_cache(256)
def format_facts(name: str) -> FormatFacts:
    """The facts of a format of libav."""
    known = av.VideoFormat(name)
    return FormatFacts(
        tuple(component.bits for component in known.components),
        (known.chroma_width(16), known.chroma_height(16)),
        known.is_rgb or known.has_palette or name.startswith("xyz"),
    )


class _Converter(NamedTuple):
    """A filter graph for one format and size, and the frame to fill for it, by planes."""

    graph: av.filter.Graph
    frame: av.VideoFrame
    planes: tuple[Samples, Samples, Samples]


class _Target(NamedTuple):
    """The output of a graph, and its source: ``ycbcr`` is 4:4:4 of the source's codes."""

    color: Color
    floats: bool
    packed: bool
    source: ColorSpec

    @property
    def rgb_format(self) -> str:
        return "gbrpf32le" if self.floats else "rgba" if self.packed else "gbrp"


class _Converters:
    """Converters used last. One made anew costs 0.3 ms, as much as to decode a small JPEG file."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int, _Target], _Converter] = OrderedDict()
        self._pixels = 0

    def get(self, pixels: str, height: int, width: int, target: _Target) -> _Converter:
        """The one for pictures of this format and size."""
        key = (pixels, height, width, target)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self._pixels += height * width
        while self._pixels > _KEPT_PIXELS and len(self._kept) >= _LEAST_KEPT:
            (_, rows, columns, _), _ = self._kept.popitem(last=False)
            self._pixels -= rows * columns
        self._kept[key] = converter = _make_converter(pixels, height, width, target)
        return converter


class FilterGraphs:
    """Graphs that are kept. Each serves one thread at a time."""

    def __init__(self) -> None:
        self.repacker = lru_cache(4)(_make_graph)
        self.converters = _Converters()


class _PerThread(threading.local):
    """The graphs that a thread uses: its own, unless it was given others."""

    def __init__(self) -> None:
        self.graphs = FilterGraphs()


@contextmanager
def by_graphs(graphs: FilterGraphs) -> Iterator[None]:
    """Convert by these graphs in the block, so that they go with whoever has them, not with the thread."""
    before, _per_thread.graphs = _per_thread.graphs, graphs
    try:
        yield
    finally:
        _per_thread.graphs = before


def part_of_frame(
    frame: av.VideoFrame, source: ColorSpec, box: Box, color: Color, floats: bool, packed: bool
) -> Samples:
    """A (top, left, height, width) part of a frame at full resolution.

    Args:
        frame: frame of any pixel format of libav that lies in memory.
        source: meaning of the frame's samples.
        box: box in pixels of the frame.
        color: ``"rgb"``; or ``"ycbcr"``, a code of n bits divided by 2ⁿ−1.
        floats: whether precision is wanted, or speed.
        packed: whether the colours of a pixel had better lie side by side, if they are 8 bits; else those of a row.

    Returns:
        [3, h, w] in any order of memory, maybe with a fourth plane of no meaning. float32 in [0, 1] if ``floats``; else
        uint8, rounded to nearest. [1, h, w] where all three planes are equal.

    Raises:
        ConfigurationError: the matrix is identity and the frame is Y'CbCr.
        UnsupportedError: the frame is on a GPU, or it is RGB and Y'CbCr is wanted.
        av.error.FFmpegError: libswscale does not know the frame's format.
    """
    name = frame.format.name
    bits, _, is_rgb = format_facts(name)
    if not bits:
        raise UnsupportedError(f"a frame of format {name} does not lie in memory")
    if is_rgb:
        if color == "ycbcr":
            raise UnsupportedError(f"color is 'ycbcr', but a frame of format {name} has no Y'CbCr samples")
        return _rgb(frame, box, max(bits), floats)
    if len(bits) <= 2:
        return _gray(frame, source, box, max(bits), color, floats)
    if color == "rgb" and source.matrix == "identity":
        raise ConfigurationError(f"matrix is 'identity', but the frame is {name}, not RGB")
    return _from_ycbcr(frame, name, box, _Target(color, floats, packed, source))


def _rgb(frame: av.VideoFrame, box: Box, depth: int, floats: bool) -> Samples:
    if depth > 8:
        deep = _repack(frame, "gbrp16le")
        planes = _planes(deep, 16)
        return _scaled(np.stack([_cut(planes[i], box) for i in (2, 0, 1)]), 65535, floats)
    (pixels,) = _planes(_repack(frame, "rgb24"), 8, 3)
    return _scaled(_cut(pixels, box).transpose(2, 0, 1), 255, floats)


def _gray(frame: av.VideoFrame, source: ColorSpec, box: Box, depth: int, color: Color, floats: bool) -> Samples:
    depth = 8 if depth <= 8 else 16
    (samples,) = _planes(_repack(frame, "gray" if depth == 8 else "gray16le"), depth)
    luma = _cut(samples, box)[None]
    if color == "ycbcr":
        neutral = np.full_like(luma, 1 << (depth - 1))
        return _scaled(np.concatenate([luma, neutral, neutral]), (1 << depth) - 1, floats)
    m, b = ColorSpec("identity", source.full_range).rgb_from_codes(depth)
    return _scaled(luma, 1 / m.max(), floats, b[0])


def _scaled(codes: Samples, white: float, floats: bool, black: float = 0.0) -> Samples:
    """Codes as values: divided by ``white``, ``black`` added, clamped."""
    if codes.dtype == np.uint8 and not floats and (white, black) == (255, 0):
        return codes
    unit = 1 if floats else 255
    values = codes * np.float32(unit / white)
    values += np.float32(unit * black + (0 if floats else 0.5))
    return np.clip(values, 0, unit, out=values).astype(np.float32 if floats else np.uint8, copy=False)


def _from_ycbcr(frame: av.VideoFrame, frame_format: str, box: Box, target: _Target) -> Samples:
    bits, chroma_size, _ = format_facts(frame_format)
    depth = max(bits)
    name = f"yuv{_SUBSAMPLING[chroma_size]}p" + (f"{depth}le" if depth > 8 else "")
    if frame_format.replace("yuvj", "yuv").replace("yuva", "yuv") != name:
        frame = _repack(frame, name)
    full_range = target.source.full_range and chroma_size != (16, 16)
    widened = full_range and depth == 8 and target.color == "rgb" and not target.floats
    if widened and chroma_size not in _WITH_16_BITS:
        rgb = _from_ycbcr(frame, name, box, target._replace(floats=True))
        return (rgb * 255 + np.float32(0.5)).astype(np.uint8)
    planes = _planes(frame, depth)[:3]
    if target.color == "ycbcr" and chroma_size == (16, 16):
        return _scaled(np.stack([_cut(plane, box) for plane in planes]), (1 << depth) - 1, target.floats)
    step_x, step_y = 16 // chroma_size[0], 16 // chroma_size[1]
    top, left, height, width = box
    # In chroma samples, one more on each side for the interpolation.
    first_row, last_row = max(top // step_y - 1, 0), (top + height - 1) // step_y + 2
    first_column, last_column = max(left // step_x - 1, 0), (left + width - 1) // step_x + 2
    y, x = first_row * step_y, first_column * step_x
    luma = planes[0][y : last_row * step_y, x : last_column * step_x]
    cb, cr = (plane[first_row:last_row, first_column:last_column] for plane in planes[1:])
    if widened:
        # By 2ⁿ−1, but neutral chroma is 2ⁿ⁻¹: 0 would lie half a code below the range.
        name = f"{name}16le"
        luma = np.multiply(luma, 257, dtype=np.uint16)
        cb, cr = (np.maximum(np.multiply(plane, 257, dtype=np.uint16), 128) - 128 for plane in (cb, cr))
    rows, columns = -(-cb.shape[0] * step_y // _ROW_BLOCK) * _ROW_BLOCK, -(-cb.shape[1] * step_x // _BLOCK) * _BLOCK
    graph, staging, staged = _per_thread.graphs.converters.get(name, rows, columns, target)
    for plane, part in zip(staged, (luma, cb, cr), strict=True):
        _fill(plane, part)
    graph.vpush(staging)
    converted = graph.vpull()
    box = (top - y, left - x, height, width)
    if target.color == "ycbcr":
        converted_bits = format_facts(converted.format.name).bits[0]
        codes = np.stack([_cut(plane, box) for plane in _planes(converted, converted_bits)])
        return _scaled(codes, ((1 << depth) - 1) << (converted_bits - depth), target.floats)
    if target.packed and not target.floats:
        (pixels,) = _planes(converted, 8, 4)
        return _cut(pixels, box).transpose(2, 0, 1)
    green, blue, red = _planes(converted, 32 if target.floats else 8)
    rgb = np.stack([_cut(plane, box) for plane in (red, green, blue)])
    if not target.floats:
        return rgb
    if full_range:
        rgb *= np.float32(65535 / (65536 - (65536 >> depth)))
    return np.clip(rgb, 0, 1, out=rgb)


def _make_converter(pixels: str, height: int, width: int, target: _Target) -> _Converter:
    source = target.source
    filters = []
    if not pixels.startswith("yuv444p"):
        plain = pixels.endswith("p") and not target.floats and target.color == "ycbcr"
        filters += [
            ("scale", f"{_SCALER}:{_SAME_COLORS}:in_chroma_loc={source.chroma_site}"),
            ("format", "yuv444p" if plain else "yuv444p16le"),
        ]
    if target.color == "rgb":
        filters += [
            ("scale", f"{_EXACT}:in_color_matrix={source.matrix}:in_range={'pc' if source.full_range else 'tv'}"),
            ("format", target.rgb_format),
        ]
    frame = av.VideoFrame(width, height, pixels)
    frame.pts = 0
    y, cb, cr = _planes(frame, max(format_facts(pixels).bits))
    return _Converter(_make_graph(pixels, height, width, tuple(filters)), frame, (y, cb, cr))


def _repack(frame: av.VideoFrame, name: str) -> av.VideoFrame:
    """The same samples in another layout; nothing is lost."""
    if frame.format.name == name:
        return frame
    filters = (("setparams", _NO_COLORS), ("scale", _SCALER), ("format", name))
    graph = _per_thread.graphs.repacker(frame.format.name, frame.height, frame.width, filters)
    graph.vpush(frame)
    return graph.vpull()


def _make_graph(pixels: str, height: int, width: int, filters: tuple[tuple[str, str], ...]) -> av.filter.Graph:
    graph = av.filter.Graph()
    # Its own threads would idle here, and a forked process waits for them for ever when it frees the graph.
    graph.threads = 1
    source = graph.add_buffer(width=width, height=height, format=av.VideoFormat(pixels), time_base=Fraction(1))
    chain = [graph.add(name, args) for name, args in filters]
    graph.link_nodes(source, *chain, graph.add("buffersink"))
    graph.configure()
    return graph


def _planes(frame: av.VideoFrame, bits: int, channels: int = 1) -> list[Samples]:
    """The planes as [height, width] or [height, width, channels], views of the frame's memory."""
    sample = "u1" if bits <= 8 else "u2" if bits <= 16 else "f4"
    views = []
    for plane in frame.planes:
        height = plane.height
        rows = np.frombuffer(memoryview(plane), sample).reshape(height, -1)[:, : plane.width * channels]
        rows = rows if plane.line_size > 0 else rows[::-1]
        views.append(rows if channels == 1 else rows.reshape(height, plane.width, channels))
    return views


def _cut(samples: Samples, box: Box) -> Samples:
    top, left, height, width = box
    return samples[top : top + height, left : left + width]


def _fill(plane: Samples, part: Samples) -> None:
    """Copy to the top left and repeat the last column and row over the rest."""
    height, width = part.shape
    plane[:height, :width] = part
    plane[:height, width:] = part[:, -1:]
    plane[height:] = plane[height - 1]


_per_thread = _PerThread()
