"""Conversion of pictures in GPU memory, by one CUDA kernel that is compiled when first asked for."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.driver import cuda_driver, load_kernel
from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec, SourceView, source_view
from videoloader.convert.surface import CudaSurface, SurfaceLayout
from videoloader.errors import ConfigurationError, DecodeError, UnsupportedError

_SAMPLES = {1: "unsigned char", 2: "unsigned short"}
_OUTPUTS = {torch.uint8: "unsigned char", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "float"}
# By interpolation and antialias: the kernel's filter, and its reach where the picture does not get smaller, pixels.
_FILTERS = {
    ("bilinear", True): ("LINEAR", 1), ("bilinear", False): ("LINEAR", 1), ("bicubic", True): ("CUBIC", 2),
    ("bicubic", False): ("CUBIC_EDGES", 2), ("nearest", True): ("NEAREST", 1), ("nearest", False): ("NEAREST", 1),
}  # fmt: skip

# As in convert.cu.
_THREADS, _CHUNK, _ROWS, _MAX_TILE, _MAX_PICTURES = 128, 256, 2, 256, 16
_AXIS = np.dtype(
    [
        *((name, np.int32) for name in ("start", "size", "resized_start", "out_size", "mirror")),
        *((name, np.float32) for name in ("scale", "support", "slope")),
    ]
)
_PLAN = np.dtype(
    [
        *((name, np.int64) for name in ("out", "out_c", "out_y", "out_x")),
        *((name, np.int32) for name in ("pitch", "chroma_pitch", "chroma_step", "cb", "cr", "width", "height")),
        *((name, np.int32) for name in ("tile", "lead_y")),
        ("x", _AXIS), ("y", _AXIS), ("beside_x", np.float32, 4), ("below_y", np.float32, 4),
        ("m", np.float32, 9), ("b", np.float32, 3), ("gain", np.float32, 3), ("bias", np.float32, 3),
    ],
    align=True,
)  # fmt: skip


class _Launch(NamedTuple):
    function: int  # CUfunction
    grid: tuple[int, int]
    plan: npt.NDArray[np.void]
    plan_address: int


class _Recent(threading.local):
    """The launch that a thread made last, and of what; where it puts the addresses of surfaces and slots."""

    key: object = None
    launch: _Launch

    def __init__(self) -> None:
        self.pictures = (ctypes.c_uint64 * (2 * _MAX_PICTURES))()


def convert_surface(
    surface: CudaSurface,
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    slot: torch.Tensor,
    stream: int,
) -> None:
    """Write a surface into a batch slot: ``convert_frame`` on the GPU, in float32 and one kernel.

    The resize is that of PyTorch's ``interpolate`` on floats, clamped to [0, 1] (bicubic weights overshoot; torchvision
    clamps uint8 pictures in the same way). Codes alone decide: surfaces of the same picture give the same bits,
    whatever the layout of their planes and wherever in a sample the codes stand.

    Only launches: the slot is ready, and the surface may be overwritten, when ``stream`` has come past.
    The first call for a kind of surface, filter and output type compiles a kernel (about a second, kept on disk by
    CuPy).

    Args:
        surface: in the memory of the slot's device.
        color: see ``color_spec``. Identity is for surfaces without chroma subsampling only. Gray takes only the range
            from it, RGB nothing.
        rotation: degrees clockwise a player turns the picture: 0, 90, 180 or 270.
        mirrored: whether it is turned left to right after the rotation.
        geometry: in pixels after rotation and mirroring.
        output: number type, normalisation, RGB or Y'CbCr. Gray has neutral chroma.
        slot: [3, H, W] on the current CUDA device with ``output.dtype``, any strides; H, W must be
            ``geometry.picture_size``.
        stream: handle (``cudaStream_t``) of a stream of that device.

    Raises:
        ConfigurationError: the slot does not fit, the crop reaches outside the surface, or the surface's
            layout contradicts itself or the colours.
        UnsupportedError: Y'CbCr is wanted of an RGB picture.
    """
    convert_surfaces([surface], color, rotation, mirrored, geometry, output, slot[None], [0], stream)


def convert_surfaces(
    surfaces: Sequence[CudaSurface],
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    slots: torch.Tensor,
    positions: Sequence[int],
    stream: int,
) -> None:
    """``convert_surface`` for several pictures of one video, by one kernel for each sixteen.

    To launch a kernel takes longer than all else that Python does for a picture.

    Args:
        surfaces: of one layout.
        slots: [N, 3, H, W], of any strides.
        positions: which of them is each surface's.

    Raises:
        ConfigurationError: as by ``convert_surface``, or surfaces differ.
    """
    layout, shape = surfaces[0].layout, slots.shape[1:]
    step, *strides = slots.stride()
    key = (layout, color, rotation, mirrored, geometry, output, shape, strides, slots.dtype, slots.device)
    if key != _recent.key:  # the same objects frame after frame: to compare them is cheaper than to hash them
        if shape != (3, *geometry.picture_size) or slots.dtype != output.dtype or slots.device.type != "cuda":
            raise ConfigurationError(
                f"slot is {slots.dtype} {list(shape)} on {slots.device}, "
                f"not {output.dtype} {[3, *geometry.picture_size]} on a CUDA device"
            )
        _recent.launch = _launch(
            layout, color, rotation, mirrored, geometry, output, tuple(strides), slots.device.index
        )
        _recent.key = key
    launch, pictures = _recent.launch, _recent.pictures
    arguments = _Arguments(ctypes.addressof(pictures), launch.plan_address)
    columns, rows = launch.grid
    start, step = slots.data_ptr(), step * slots.element_size()
    for first in range(0, len(surfaces), _MAX_PICTURES):
        count = 0
        for surface, position in zip(surfaces[first : first + _MAX_PICTURES], positions[first:], strict=False):
            if surface.layout != layout:
                raise ConfigurationError("surfaces that are converted at once differ in their layout")
            pictures[count], pictures[_MAX_PICTURES + count] = surface.pointer, start + position * step
            count += 1
        error = cuda_driver().cuLaunchKernel(
            launch.function, columns, rows, count, _THREADS, 1, 1, 0, stream, arguments, None
        )
        if error:
            raise DecodeError(f"the conversion kernel cannot be launched: CUDA error {error}")


@lru_cache(4096)
def _launch(
    layout: SurfaceLayout,
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    strides: tuple[int, int, int],
    device: int,
) -> _Launch:
    """All of a launch but the two addresses: it is the same for all frames of a clip."""
    plan = _plan(layout, color, rotation, mirrored, geometry, output, strides)
    grid = (-(-int(plan["x"]["out_size"]) // int(plan["tile"])), -(-int(plan["y"]["out_size"]) // _ROWS))
    kernel = load_kernel(
        (Path(__file__).with_name("convert.cu"),),
        f"convert<{_SAMPLES[layout.sample_bytes]}, {layout.subsampling[0]}, {layout.subsampling[1]}, "
        f"{_FILTERS[geometry.interpolation, geometry.antialias][0]}, {_OUTPUTS[output.dtype]}>",
        ("--std=c++17",),
        device,
    )
    return _Launch(kernel, grid, plan, plan.ctypes.data)


def _plan(
    layout: SurfaceLayout,
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    strides: tuple[int, int, int],
) -> npt.NDArray[np.void]:
    """The kernel's argument ``Plan``, a structured array without dimensions."""
    _check(layout)
    view = source_view(geometry, rotation, mirrored, layout.height, layout.width)
    m, b = _matrix(layout, color, output)
    out, step_y, step_x = _oriented(view.window[2:], view.turns, view.flip, strides)
    gain, bias = output.scale_shift()
    if output.dtype == torch.uint8:  # the kernel truncates
        gain, bias = gain * 255, bias + 0.5

    plan = np.zeros((), _PLAN)
    plan["out"], plan["out_c"], plan["out_y"], plan["out_x"] = out, strides[0], step_y, step_x
    for name in ("pitch", "chroma_pitch", "chroma_step", "cb", "cr", "width", "height"):
        plan[name] = getattr(layout, name)
    plan["y"], plan["x"] = _axis(view, 0, geometry), _axis(view, 1, geometry)
    plan["tile"] = _tile(plan["x"])
    site_x, site_y = color.chroma_offset()
    beside, below = _phases(layout.subsampling[0], site_x), _phases(layout.subsampling[1], site_y)
    plan["beside_x"][: len(beside)] = beside
    # In the kernel the second of two rows always has the next chroma row below it, though that may weigh nothing.
    lead = 1 if len(below) == 2 else int((below > 0).sum())
    below[: len(below) - lead] += 1
    plan["lead_y"], plan["below_y"][: len(below)] = lead, below
    plan["m"], plan["b"] = m.ravel() / 2.0**layout.code_shift, b
    plan["gain"], plan["bias"] = gain, bias
    return plan


def _check(layout: SurfaceLayout) -> None:
    width, height, size = layout.width, layout.height, layout.sample_bytes
    rows, columns = layout.chroma_size
    last_chroma = (rows - 1) * layout.chroma_pitch + (columns - 1) * layout.chroma_step
    if width < 1 or height < 1:
        raise ConfigurationError(f"a surface cannot be of {width}×{height} pixels")
    if layout.pitch < width or layout.chroma_pitch < columns * layout.chroma_step:
        pitches = f"{layout.pitch} and {layout.chroma_pitch}"
        raise ConfigurationError(f"pitch is {pitches} samples, which cannot be for {width}×{height} pixels")
    if max(layout.pitch * height, max(layout.cb, layout.cr) + last_chroma) >= 2**31:
        raise ConfigurationError(f"a surface of {width}×{height} pixels is larger than 2³¹ samples")
    if size not in _SAMPLES or (layout.bit_depth == 8) != (size == 1) or not 8 <= layout.bit_depth <= 16:
        raise ConfigurationError(f"bit_depth is {layout.bit_depth}, which cannot be for samples of {size} bytes")
    if not 0 <= layout.code_shift <= 8 * size - layout.bit_depth:
        raise ConfigurationError(f"code_shift is {layout.code_shift} for {layout.bit_depth} of {8 * size} bits")


def _matrix(
    layout: SurfaceLayout, color: ColorSpec, output: OutputSpec
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """float64[3, 3] and float64[3]: from the codes of the three components to the output's, in [0, 1]."""
    depth = layout.bit_depth
    if output.color == "ycbcr":
        if layout.model == "rgb" or (color.matrix == "identity" and layout.model == "ycbcr"):
            raise UnsupportedError("an RGB picture has no Y'CbCr samples to give out")
        m, b = np.eye(3) / (2**depth - 1), np.zeros(3)
    elif layout.model == "rgb":
        return ColorSpec("identity", True).rgb_from_codes(depth)
    elif layout.model == "gray":  # any matrix: neutral chroma cancels what they differ in
        m, b = ColorSpec("bt709", color.full_range).rgb_from_codes(depth)
    elif color.matrix == "identity" and layout.subsampling != (0, 0):
        raise ConfigurationError("matrix is 'identity', but the surface has subsampled chroma")
    else:
        return color.rgb_from_codes(depth)
    if layout.model == "gray":
        # The kernel reads luma in place of the chroma that is not there: its weight is nothing.
        b += m[:, 1:].sum(1) * 2 ** (depth - 1)
        m[:, 1:] = 0
    return m, b


def _axis(view: SourceView, axis: int, geometry: Geometry) -> npt.NDArray[np.void]:
    """The kernel's ``Axis`` for rows (0) or columns (1)."""
    scale = view.crop[axis + 2] / view.size[axis]
    widening = max(scale, 1.0) if geometry.antialias else 1.0
    result = np.zeros((), _AXIS)
    result["start"], result["size"] = view.crop[axis], view.crop[axis + 2]
    result["resized_start"], result["out_size"] = view.window[axis], view.window[axis + 2]
    result["mirror"] = view.size[axis] - 1 if view.backward[axis] else -1
    result["scale"], result["slope"] = scale, 1 / widening
    result["support"] = widening * _FILTERS[geometry.interpolation, geometry.antialias][1]
    return result


def _tile(columns: npt.NDArray[np.void]) -> int:
    """Output columns of a block: what one chunk of source columns is enough for, evenly over the width."""
    out_size = int(columns["out_size"])
    fitting = int((_CHUNK - 3 - 2 * columns["support"]) / columns["scale"]) + 1
    tiles = -(-out_size // min(max(fitting, 1), _MAX_TILE))
    return -(-out_size // tiles)


def _phases(halvings: int, site: float) -> npt.NDArray[np.float64]:
    """How far each of the luma samples that share a chroma sample lies after it, in distances of chroma samples.

    Args:
        halvings: log2 of how many share one.
        site: of chroma, 0 at the first of them and 1 at the last.
    """
    count = 1 << halvings
    return (np.arange(count) - site * (count - 1)) / count


def _oriented(size: tuple[int, int], turns: int, flip: bool, strides: tuple[int, int, int]) -> tuple[int, int, int]:
    """Offset of the first pixel of a resized picture in its slot, and steps to the next row and column.

    Args:
        size: (height, width) of the picture before it is turned.
        turns: quarter turns clockwise.
        flip: left to right, after turning.
        strides: of the slot, elements.
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


_Arguments = ctypes.c_void_p * 2
_recent = _Recent()
