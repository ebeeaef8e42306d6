"""Convert part of a decoded frame to RGB or Y'CbCr at full resolution, with libswscale.

There are two steps, in one filter graph that does not hold the GIL. First libswscale's scaler enlarges chroma to luma's
size, at 16 bits, bilinearly and by its site. Then libswscale's newer code (``unstable``, with floats inside, since
FFmpeg 8.1) applies the matrix, clamps and rounds. It is exact, and three times as fast as the scaler's own conversion
to RGB, but accepts only 4:4:4.

The scaler has flaws (versions 8 to 10): it stretches chroma over an odd size instead of respecting its sites, ignores
the chroma site of yuvj formats, misplaces chroma in pictures under 8 pixels, and widens full-range codes by 2ⁿ instead
of 2ⁿ−1. The newer code writes past the end of rows whose length is no multiple of the pixels that it processes at once.
So both get a copy of the wanted part, in a plain format and a size that they handle. Full-range codes are widened
beforehand, or the result, which would be too dark, is corrected afterwards.
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

from videoloader.convert.rounding import to_uint8
from videoloader.convert.spec import Box, Color, ColorSpec, Samples
from videoloader.errors import ConfigurationError, UnsupportedError

# Chroma subsampling by the size of the chroma planes of a 16×16 picture.
_SUBSAMPLING = {
    (8, 8): "420", (8, 16): "422", (16, 16): "444", (16, 8): "440", (4, 16): "411", (4, 4): "410",
}  # fmt: skip
# Of these, apart from 4:4:4, the ones for which libav has 16-bit formats.
_WITH_16_BITS = ((8, 8), (8, 16))
_SCALER = "flags=bilinear:threads=1"
_EXACT = "flags=unstable+bilinear+accurate_rnd:sws_dither=none:threads=1"
# With the same names on both sides, nothing is converted.
_SAME_COLORS = "in_color_matrix=bt709:out_color_matrix=bt709:in_range=tv:out_range=tv"
# libswscale must not convert colours where it only has to repack, whatever the decoder says of a frame's colours.
_NO_COLORS = "range=unknown:colorspace=unknown:color_primaries=unknown:color_trc=unknown"
# Pixels that libswscale's newer code processes at once, on processors with the widest registers.
_BLOCK = 64
# Row counts are rounded up to multiples of this, so that pictures of many sizes share few converters.
_ROW_BLOCK = 64
# Pixels of all converters that a thread keeps (about 10 bytes each), and the least number of them that it keeps.
_KEPT_PIXELS, _LEAST_KEPT = 4 << 20, 4


class FormatFacts(NamedTuple):
    """Facts about a pixel format, cached because libav makes a new object for each question.

    Attributes:
        bits: bits of each component; empty if frames do not lie in memory.
        chroma_size: (width, height) of the chroma planes of a 16×16 picture.
        is_rgb: whether samples are RGB colours or palette indices, not Y'CbCr or gray.
    """

    bits: tuple[int, ...]
    chroma_size: tuple[int, int]
    is_rgb: bool


@lru_cache(256)
def format_facts(name: str) -> FormatFacts:
    """Return the facts of a libav pixel format."""
    known = av.VideoFormat(name)
    return FormatFacts(
        tuple(component.bits for component in known.components),
        (known.chroma_width(16), known.chroma_height(16)),
        known.is_rgb or known.has_palette or name.startswith("xyz"),
    )


class _Converter(NamedTuple):
    """A filter graph for one format and size, and its input frame, also as planes."""

    graph: av.filter.Graph
    frame: av.VideoFrame
    planes: tuple[Samples, Samples, Samples]


class _Target(NamedTuple):
    """The output of a graph, and the colours of its source: ``ycbcr`` is 4:4:4 of the source's codes."""

    color: Color
    floats: bool
    packed: bool
    source: ColorSpec

    @property
    def rgb_format(self) -> str:
        return "gbrpf32le" if self.floats else "rgba" if self.packed else "gbrp"


class _Converters:
    """Converters used last. Making one takes 0.3 ms, as long as decoding a small JPEG file."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int, _Target], _Converter] = OrderedDict()
        self._pixels = 0

    def get(self, pixels: str, height: int, width: int, target: _Target) -> _Converter:
        """Return the converter for pictures of this format and size."""
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
    """Graphs that are kept. Each is used by one thread at a time."""

    def __init__(self) -> None:
        self.repacker = lru_cache(4)(_make_graph)
        self.converters = _Converters()


class _PerThread(threading.local):
    """The graphs that a thread uses: its own, unless it was given others."""

    def __init__(self) -> None:
        self.graphs = FilterGraphs()


@contextmanager
def by_graphs(graphs: FilterGraphs) -> Iterator[None]:
    """Use these graphs in the block, so that they live with their owner and not with the thread."""
    before, _per_thread.graphs = _per_thread.graphs, graphs
    try:
        yield
    finally:
        _per_thread.graphs = before


def part_of_frame(
    frame: av.VideoFrame, source: ColorSpec, box: Box, color: Color, floats: bool, packed: bool
) -> Samples:
    """Return a (top, left, height, width) part of a frame at full resolution.

    Args:
        frame: frame of any pixel format of libav that lies in memory.
        source: colours of the frame's samples.
        box: the part in pixels of the frame.
        color: ``"rgb"``, or ``"ycbcr"`` for n-bit codes divided by 2ⁿ−1.
        floats: whether to prefer precision to speed.
        packed: whether the colours of an 8-bit pixel should preferably lie side by side, and not in separate planes.

    Returns:
        [3, h, w] with any strides, possibly with a meaningless fourth plane; [1, h, w] if all three planes are equal.
        float32 in [0, 1] if ``floats``; else uint8, rounded to nearest.

    Raises:
        ConfigurationError: the matrix is identity and the frame is Y'CbCr.
        UnsupportedError: the frame is on a GPU, or Y'CbCr is wanted from an RGB frame.
        av.error.FFmpegError: libswscale does not know the frame's format.
    """
    name = frame.format.name
    bits, _, is_rgb = format_facts(name)
    if not bits:
        raise UnsupportedError(f"a frame of format {name} is not in CPU memory")
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
        # libswscale copies only the left half of gbrap16le's rows to gbrp16le.
        deep = frame if frame.format.name == "gbrap16le" else _repack(frame, "gbrp16le")
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
    """Convert codes to values: divide by ``white``, add ``black``, clamp."""
    if codes.dtype == np.uint8 and not floats and (white, black) == (255, 0):
        return codes
    unit = 1 if floats else 255
    values = codes * np.float32(unit / white)
    values += np.float32(unit * black)
    np.clip(values, 0, unit, out=values)
    return values if floats else to_uint8(values)


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
        return to_uint8(rgb * 255)
    planes = _planes(frame, depth)[:3]
    if target.color == "ycbcr" and chroma_size == (16, 16):
        return _scaled(np.stack([_cut(plane, box) for plane in planes]), (1 << depth) - 1, target.floats)
    step_x, step_y = 16 // chroma_size[0], 16 // chroma_size[1]
    top, left, height, width = box
    # In chroma samples, with one more on each side for the interpolation.
    first_row, last_row = max(top // step_y - 1, 0), (top + height - 1) // step_y + 2
    first_column, last_column = max(left // step_x - 1, 0), (left + width - 1) // step_x + 2
    y, x = first_row * step_y, first_column * step_x
    luma = planes[0][y : last_row * step_y, x : last_column * step_x]
    cb, cr = (plane[first_row:last_row, first_column:last_column] for plane in planes[1:])
    if widened:
        # Widen by 2ⁿ−1 around neutral chroma, which is 2ⁿ⁻¹. Code 0 would land half a code below the range.
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
    """Convert a frame to another layout of the same samples, without loss."""
    if frame.format.name == name:
        return frame
    filters = (("setparams", _NO_COLORS), ("scale", _SCALER), ("format", name))
    graph = _per_thread.graphs.repacker(frame.format.name, frame.height, frame.width, filters)
    graph.vpush(frame)
    return graph.vpull()


def _make_graph(pixels: str, height: int, width: int, filters: tuple[tuple[str, str], ...]) -> av.filter.Graph:
    graph = av.filter.Graph()
    # The graph's own threads would be idle, and a forked process that frees the graph would wait for them forever.
    graph.threads = 1
    source = graph.add_buffer(width=width, height=height, format=av.VideoFormat(pixels), time_base=Fraction(1))
    chain = [graph.add(name, args) for name, args in filters]
    graph.link_nodes(source, *chain, graph.add("buffersink"))
    graph.configure()
    return graph


def _planes(frame: av.VideoFrame, bits: int, channels: int = 1) -> list[Samples]:
    """Return the planes as [height, width] or [height, width, channels], as views of the frame's memory."""
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
    """Copy a part to the top left, and fill the rest by repeating its last column and row."""
    height, width = part.shape
    plane[:height, :width] = part
    plane[:height, width:] = part[:, -1:]
    plane[height:] = plane[height - 1]


_per_thread = _PerThread()
