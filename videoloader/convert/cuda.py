"""Conversion of NVDEC's surfaces on the GPU, by one CUDA kernel that is compiled when first asked for."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec, source_view
from videoloader.errors import ConfigurationError, DecodeError

Layout = Literal["nv12", "p016", "yuv444", "yuv444_16"]

# C++ type of a sample, its bytes, and whether chroma is subsampled (and then interleaved).
_LAYOUTS = {
    "nv12": ("unsigned char", 1, True),
    "p016": ("unsigned short", 2, True),
    "yuv444": ("unsigned char", 1, False),
    "yuv444_16": ("unsigned short", 2, False),
}
_OUTPUTS = {torch.uint8: "unsigned char", torch.float16: "unsigned short", torch.float32: "float"}

# As in convert.cu.
_THREADS, _CHUNK, _ROWS, _MAX_TILE = 128, 256, 2, 256
_PLAN = np.dtype(
    [
        *((name, np.int64) for name in ("out", "out_c", "out_y", "out_x")),
        *((name, np.int32) for name in ("pitch", "cb", "cr", "width", "height")),
        *((name, np.int32) for name in ("left", "top", "columns", "rows", "resized_left", "resized_top")),
        *((name, np.int32) for name in ("out_width", "out_height", "tile")),
        *((name, np.float32) for name in ("even_x", "odd_x", "even_y", "odd_y", "scale_x", "scale_y")),
        ("m", np.float32, 9), ("b", np.float32, 3), ("gain", np.float32, 3), ("bias", np.float32, 3),
    ],
    align=True,
)  # fmt: skip


@dataclass(frozen=True)
class CudaSurface:
    """A decoded picture in GPU memory.

    The planes follow one another without a gap: ``height`` rows of luma, then for ``nv12`` and ``p016``
    ``⌈height / 2⌉`` rows of interleaved Cb and Cr (4:2:0), for ``yuv444`` and ``yuv444_16`` ``height`` rows
    of Cb and as many of Cr.

    Attributes:
        pointer: device address of the first luma sample.
        width, height: of the picture, pixels.
        pitch: from row to row, bytes; the same in all planes.
        layout: ``p016`` and ``yuv444_16`` have 16-bit samples with the code in the high bits, the others 8-bit.
        bit_depth: of the codes.
        owner: whatever keeps the memory alive.
    """

    pointer: int
    width: int
    height: int
    pitch: int
    layout: Layout
    bit_depth: int
    owner: object = None


class _Launch(NamedTuple):
    function: int  # CUfunction
    grid: tuple[int, int]
    plan: npt.NDArray[np.void]
    plan_address: int


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
    """Write a surface into a batch slot as RGB: ``convert_frame`` on the GPU, in float32 and one kernel.

    Only launches: the slot is ready, and the surface may be overwritten, when ``stream`` has come past.
    The first call for a layout and output type compiles a kernel (about a second, kept on disk by CuPy).

    Args:
        surface: in the memory of the slot's device.
        color: see ``color_spec``. Identity is for the 4:4:4 layouts only.
        rotation: degrees clockwise a player turns the picture: 0, 90, 180 or 270.
        mirrored: whether it is turned left to right after the rotation.
        geometry: in pixels after rotation and mirroring.
        output: number type and normalisation.
        slot: [3, H, W] on the current CUDA device with ``output.dtype``, any strides; H, W must be
            ``geometry.output_size``.
        stream: handle (``cudaStream_t``) of a stream of that device.

    Raises:
        ConfigurationError: the slot does not fit, the crop reaches outside the surface, or the surface's
            layout, pitch or bit depth contradict each other or the colours.
    """
    if slot.shape != (3, *geometry.output_size) or slot.dtype != output.dtype or slot.device.type != "cuda":
        raise ConfigurationError(
            f"slot is {slot.dtype} {list(slot.shape)} on {slot.device}, "
            f"not {output.dtype} {[3, *geometry.output_size]} on a CUDA device"
        )
    launch = _launch(
        (surface.width, surface.height, surface.pitch, surface.layout, surface.bit_depth),
        color, rotation, mirrored, geometry, output, slot.stride(), slot.device.index,
    )  # fmt: skip
    source, target = ctypes.c_uint64(surface.pointer), ctypes.c_uint64(slot.data_ptr())
    arguments = _Arguments(ctypes.addressof(source), ctypes.addressof(target), launch.plan_address)
    columns, rows = launch.grid
    error = _cuda().cuLaunchKernel(launch.function, columns, rows, 1, _THREADS, 1, 1, 0, stream, arguments, None)
    if error:
        raise DecodeError(f"the conversion kernel cannot be launched: CUDA error {error}")


@lru_cache(4096)
def _launch(
    source: tuple[int, int, int, str, int],
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    strides: tuple[int, int, int],
    device: int,
) -> _Launch:
    """All of a launch but the two addresses: it is the same for all frames of a clip."""
    layout, dtype = source[3], output.dtype
    if layout not in _LAYOUTS:
        raise ConfigurationError(f"layout is {layout!r}, not one of {list(_LAYOUTS)}")
    plan = _plan(source, color, rotation, mirrored, geometry, output, strides)
    grid = (-(-int(plan["out_width"]) // int(plan["tile"])), -(-int(plan["out_height"]) // _ROWS))
    return _Launch(_kernel(layout, dtype, device), grid, plan, plan.ctypes.data)


def _plan(
    source: tuple[int, int, int, str, int],
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    strides: tuple[int, int, int],
) -> npt.NDArray[np.void]:
    """The kernel's argument ``Plan``, a structured array without dimensions."""
    width, height, pitch_bytes, layout, bit_depth = source
    _, sample_bytes, subsampled = _LAYOUTS[layout]
    pitch, rest = divmod(pitch_bytes, sample_bytes)
    least = -(-width // 2) * 2 if subsampled else width
    if rest or pitch < least or pitch * height * 3 >= 2**31:
        raise ConfigurationError(f"pitch is {pitch_bytes} bytes, which cannot be for {width}×{height} {layout}")
    if not (bit_depth == 8 if sample_bytes == 1 else 8 < bit_depth <= 16):
        raise ConfigurationError(f"bit_depth is {bit_depth}, which cannot be for {layout}")
    if subsampled and color.matrix == "identity":
        raise ConfigurationError(f"matrix is 'identity', but {layout} has subsampled chroma")
    view = source_view(geometry, rotation, mirrored, height, width)
    m, b = color.rgb_from_codes(bit_depth)
    out, step_y, step_x = _oriented(view.window[2:], view.turns, view.flip, strides)
    site_x, site_y = color.chroma_offset()
    gain, bias = output.scale_shift()
    if output.dtype == torch.uint8:  # the kernel truncates
        gain, bias = gain * 255, bias + 0.5

    plan = np.zeros((), _PLAN)
    plan["out"], plan["out_c"], plan["out_y"], plan["out_x"] = out, strides[0], step_y, step_x
    plan["pitch"] = pitch
    plan["cb"], plan["cr"] = pitch * height, pitch * height + 1 if subsampled else 2 * pitch * height
    plan["width"], plan["height"] = width, height
    plan["top"], plan["left"], plan["rows"], plan["columns"] = view.crop
    plan["resized_top"], plan["resized_left"], plan["out_height"], plan["out_width"] = view.window
    scale_y, scale_x = view.crop[2] / view.size[0], view.crop[3] / view.size[1]
    plan["scale_x"], plan["scale_y"] = scale_x, scale_y
    plan["tile"] = _tile(view.window[3], scale_x)
    # Luma sample x lies at (x - site) / 2 between the chroma samples.
    plan["even_x"], plan["odd_x"] = site_x / 2, (1 - site_x) / 2
    plan["even_y"], plan["odd_y"] = site_y / 2, (1 - site_y) / 2
    plan["m"], plan["b"] = m.ravel() / 2.0 ** (8 * sample_bytes - bit_depth), b
    plan["gain"], plan["bias"] = gain, bias
    return plan


def _tile(out_width: int, scale: float) -> int:
    """Output columns of a block: what one chunk of source columns is enough for, evenly over the width."""
    fitting = int((_CHUNK - 3 - 2 * max(scale, 1)) / scale) + 1
    tiles = -(-out_width // min(max(fitting, 1), _MAX_TILE))
    return -(-out_width // tiles)


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


@cache
def _kernel(layout: str, dtype: torch.dtype, device: int) -> int:
    import cupy

    sample, _, subsampled = _LAYOUTS[layout]
    name = f"convert<{sample}, {str(subsampled).lower()}, {_OUTPUTS[dtype]}>"
    code = Path(__file__).with_name("convert.cu").read_text()
    with cupy.cuda.Device(device):
        module = cupy.RawModule(code=code, options=("--std=c++17",), name_expressions=(name,))
        function = module.get_function(name).kernel
    _loaded.append(function)
    return int(function.ptr)


# Functions whose handles are in use; CuPy unloads a module when nothing refers to it.
_loaded: list[Any] = []
_Arguments = ctypes.c_void_p * 3


@cache
def _cuda() -> ctypes.PyDLL:
    """The CUDA driver, called without letting go of Python's global lock.

    A launch takes a few microseconds. To let go for it, as CuPy does, means to queue for the lock again
    behind all other decoding threads, once a frame: with 14 threads that costs two thirds of the frames.
    """
    driver = ctypes.PyDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    driver.cuLaunchKernel.argtypes = [pointer, *[number] * 7, pointer, ctypes.POINTER(pointer), pointer]
    return driver
