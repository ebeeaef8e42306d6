"""Describe a conversion in numbers, for the CUDA kernel and the CPU's native code."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.filters import FILTERS
from videoloader.convert.spec import ColorSpec, Conversion, Geometry, OutputSpec, SourceView, source_view
from videoloader.convert.surface import SurfaceLayout
from videoloader.errors import ConfigurationError, UnsupportedError

SAMPLE_BYTES = (1, 2)

# These match pixels.h.
AXIS = np.dtype(
    [
        *((name, np.int32) for name in ("start", "size", "resized_start", "out_size", "mirror")),
        *((name, np.float32) for name in ("scale", "support", "slope")),
    ]
)
PLAN = np.dtype(
    [
        *((name, np.int64) for name in ("out", "out_c", "out_y", "out_x")),
        *((name, np.int32) for name in ("pitch", "chroma_pitch", "luma_step", "chroma_step", "cb", "cr")),
        *((name, np.int32) for name in ("width", "height", "tile", "lead_y")),
        ("x", AXIS), ("y", AXIS), ("beside_x", np.float32, 4), ("below_y", np.float32, 4),
        ("m", np.float32, 9), ("b", np.float32, 3), ("gain", np.float32, 3), ("bias", np.float32, 3),
    ],
    align=True,
)  # fmt: skip


def conversion_plan(
    layout: SurfaceLayout, conversion: Conversion, strides: tuple[int, int, int]
) -> npt.NDArray[np.void]:
    """Return the argument ``Plan``, a structured array without dimensions. ``tile`` is not set.

    Raises:
        ConfigurationError, UnsupportedError: see ``convert_surfaces``.
    """
    color, rotation, mirrored, geometry, output = conversion
    # Copying a structured array takes 25 µs, since numpy copies it field by field.
    plan = np.frombuffer(bytearray(_plan_of_colors(layout, color, output)), PLAN).reshape(())
    view = source_view(geometry, rotation, mirrored, layout.height, layout.width)
    out, step_y, step_x = _oriented(view.window[2:], view.turns, view.flip, strides)
    plan["out"], plan["out_c"], plan["out_y"], plan["out_x"] = out, strides[0], step_y, step_x
    plan["y"], plan["x"] = _axis(view, 0, geometry), _axis(view, 1, geometry)
    return plan


@lru_cache(256)
def _plan_of_colors(layout: SurfaceLayout, color: ColorSpec, output: OutputSpec) -> bytes:
    """A plan whose fields are set as far as they do not depend on the geometry. Random crops differ in each clip."""
    _check(layout)
    m, b = _matrix(layout, color, output)
    gain, bias = output.scale_shift()
    if output.dtype == torch.uint8:  # kernels truncate; ``to_uint8`` adds the same half
        gain, bias = gain * 255, bias + 0.5
    plan = np.zeros((), PLAN)
    for name in ("pitch", "chroma_pitch", "luma_step", "chroma_step", "cb", "cr", "width", "height"):
        plan[name] = getattr(layout, name)
    site_x, site_y = color.chroma_offset()
    beside, below = _phases(layout.subsampling[0], site_x), _phases(layout.subsampling[1], site_y)
    plan["beside_x"][: len(beside)] = beside
    # In the kernel, the second of two luma rows always has the next chroma row below it, even if that has no weight.
    lead = 1 if len(below) == 2 else int((below > 0).sum())
    below[: len(below) - lead] += 1
    plan["lead_y"], plan["below_y"][: len(below)] = lead, below
    plan["m"], plan["b"] = m.ravel() / 2.0**layout.code_shift, b
    plan["gain"], plan["bias"] = gain, bias
    return plan.tobytes()


def _check(layout: SurfaceLayout) -> None:
    width, height, size = layout.width, layout.height, layout.sample_bytes
    rows, columns = layout.chroma_size
    last_chroma = (rows - 1) * layout.chroma_pitch + (columns - 1) * layout.chroma_step
    if width < 1 or height < 1:
        raise ConfigurationError(f"a surface cannot be of {width}×{height} pixels")
    if layout.pitch < width * layout.luma_step or layout.chroma_pitch < columns * layout.chroma_step:
        pitches = f"{layout.pitch} and {layout.chroma_pitch}"
        raise ConfigurationError(f"pitch is {pitches} samples, which does not fit {width}×{height} pixels")
    if max(layout.pitch * height, max(layout.cb, layout.cr) + last_chroma) >= 2**31:
        raise ConfigurationError(f"a surface of {width}×{height} pixels is larger than 2³¹ samples")
    if size not in SAMPLE_BYTES or (layout.bit_depth == 8) != (size == 1) or not 8 <= layout.bit_depth <= 16:
        raise ConfigurationError(f"bit_depth is {layout.bit_depth}, which does not fit samples of {size} bytes")
    if not 0 <= layout.code_shift <= 8 * size - layout.bit_depth:
        raise ConfigurationError(f"code_shift is {layout.code_shift} for {layout.bit_depth} of {8 * size} bits")


def _matrix(
    layout: SurfaceLayout, color: ColorSpec, output: OutputSpec
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the matrix, float64[3, 3], and offset, float64[3], from codes of three components to outputs in [0, 1]."""
    depth = layout.bit_depth
    if output.color == "ycbcr":
        if layout.model == "rgb" or (color.matrix == "identity" and layout.model == "ycbcr"):
            raise UnsupportedError("color is 'ycbcr', but an RGB picture has no Y'CbCr samples")
        m, b = np.eye(3) / (2**depth - 1), np.zeros(3)
    elif layout.model == "rgb":
        return ColorSpec("identity", True).rgb_from_codes(depth)
    elif layout.model == "gray":  # any matrix will do: with neutral chroma all give the same result
        m, b = ColorSpec("bt709", color.full_range).rgb_from_codes(depth)
    elif color.matrix == "identity" and layout.subsampling != (0, 0):
        raise ConfigurationError("matrix is 'identity', but the surface has subsampled chroma")
    else:
        return color.rgb_from_codes(depth)
    if layout.model == "gray":
        # The kernel reads luma in place of the missing chroma, so chroma gets no weight.
        b += m[:, 1:].sum(1) * 2 ** (depth - 1)
        m[:, 1:] = 0
    return m, b


def _axis(view: SourceView, axis: int, geometry: Geometry) -> tuple[float, ...]:
    """Return the fields of the kernel's ``Axis`` for rows (0) or columns (1), in the order of ``AXIS``."""
    scale = view.crop[axis + 2] / view.size[axis]
    widening = max(scale, 1.0) if geometry.antialias else 1.0
    mirror = view.size[axis] - 1 if view.backward[axis] else -1
    support = widening * FILTERS[geometry.interpolation].reach
    return (
        view.crop[axis], view.crop[axis + 2], view.window[axis], view.window[axis + 2], mirror,
        scale, support, 1 / widening,
    )  # fmt: skip


def check_slots(slots: torch.Tensor, conversion: Conversion, kind: str) -> None:
    """Raise ConfigurationError unless slots [N, 3, H, W] fit a conversion, on a kind of device."""
    shape, dtype = [3, *conversion.geometry.picture_size], conversion.output.dtype
    if list(slots.shape[1:]) != shape or slots.dtype != dtype or slots.device.type != kind:
        got = f"slot is {slots.dtype} {list(slots.shape[1:])} on {slots.device}"
        raise ConfigurationError(f"{got}, not {dtype} {shape} on a {kind} device")


def _phases(halvings: int, site: float) -> npt.NDArray[np.float64]:
    """Return how far each luma sample comes after the chroma sample that it shares, in distances of chroma samples.

    Args:
        halvings: log2 of the number of luma samples that share one.
        site: site of chroma, 0 at the first of them and 1 at the last.
    """
    count = 1 << halvings
    return (np.arange(count) - site * (count - 1)) / count


def _oriented(size: tuple[int, int], turns: int, flip: bool, strides: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the offset of a resized picture's first pixel in its slot, and the steps to the next row and column.

    Args:
        size: (height, width) of the picture before it is turned.
        turns: quarter turns clockwise.
        flip: whether to flip left to right after turning.
        strides: strides of the slot in elements.
    """
    height, width = size
    _, down, right = strides
    shown_width = height if turns % 2 else width
    start = 0
    if flip:
        start, right = (shown_width - 1) * right, -right
    if turns == 0:
        return start, down, right
    if turns == 1:  # rows run to the left, columns down
        return start + (height - 1) * right, -right, down
    if turns == 2:
        return start + (height - 1) * down + (width - 1) * right, -down, -right
    return start + (width - 1) * down, right, -down
