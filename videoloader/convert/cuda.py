"""Convert pictures in GPU memory with one CUDA kernel, compiled on first use."""

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
from videoloader.convert.filters import KERNELS, kernel_of
from videoloader.convert.plan import PLAN, check_slots, conversion_plan
from videoloader.convert.spec import OUTPUT_TYPES, Conversion, Geometry
from videoloader.convert.surface import CudaSurface, SurfaceLayout
from videoloader.errors import ConfigurationError, DecodeError

_SAMPLES = {1: "unsigned char", 2: "unsigned short"}
# These match convert.cu.
_THREADS, _CHUNK, _ROWS, _MAX_TILE, _MAX_PICTURES = 128, 256, 2, 256, 16
# A kernel's ``Plan`` as plain bytes, which numpy copies in one piece.
_PLAN_BYTES = np.dtype((np.void, PLAN.itemsize))
_PICTURE = np.dtype([("surface", np.uint64), ("slot", np.uint64), ("plan", _PLAN_BYTES)])
# Everything about the conversion of one picture except where it is and where it goes: the fields of a ``KernelKind``
# (with the filter as a number), the columns and rows of its grid of blocks, and the kernel's ``Plan``.
PICTURE_PLAN = np.dtype([("kind", np.uint8, 4), ("grid", np.int32, 2), ("plan", _PLAN_BYTES)])
# CUDA's limit for the z dimension of a grid.
_MOST_BLOCKS_DEEP = 65535


class _Launch(NamedTuple):
    function: int  # CUfunction
    grid: tuple[int, int]
    plan: npt.NDArray[np.void]
    plan_address: int


class KernelKind(NamedTuple):
    """The properties that a kernel is compiled for, apart from the type of the output.

    Attributes:
        sample_bytes, subsampling: values of ``SurfaceLayout``.
        filter: name of the resize filter in the kernel.
    """

    sample_bytes: int
    subsampling: tuple[int, int]
    filter: str

    @classmethod
    def of(cls, layout: SurfaceLayout, geometry: Geometry) -> KernelKind:
        """Return the kind for pictures of a layout and a geometry."""
        return cls(layout.sample_bytes, layout.subsampling, kernel_of(geometry))


def picture_plan(layout: SurfaceLayout, conversion: Conversion, strides: tuple[int, int, int]) -> npt.NDArray[np.void]:
    """Plan the conversion of one picture for ``convert_each``, as a ``PICTURE_PLAN`` without dimensions.

    Args:
        layout: layout of the picture.
        conversion: the way in which it becomes pixels.
        strides: strides of the slot [3, H, W], in elements.

    Raises:
        ConfigurationError, UnsupportedError: as in ``convert_surfaces``.
    """
    plan = _tiled_plan(layout, conversion, strides)
    kind = KernelKind.of(layout, conversion.geometry)
    picture = np.zeros((), PICTURE_PLAN)
    picture["kind"] = kind.sample_bytes, *kind.subsampling, KERNELS.index(kind.filter)
    picture["grid"], picture["plan"] = _grid(plan), plan.tobytes()
    return picture


def convert_each(
    plans: npt.NDArray[np.void],
    surfaces: npt.NDArray[np.int64],
    slots: npt.NDArray[np.int64],
    dtype: torch.dtype,
    stream: torch.cuda.Stream,
) -> None:
    """Convert pictures that each have a plan, with one kernel launch for each kind of picture.

    This only launches the kernels, as ``convert_surfaces`` does.

    Args:
        plans: ``PICTURE_PLAN`` of each picture.
        surfaces: device address of each picture's first luma sample.
        slots: device address of the first element of each picture's slot. Slots are on the stream's device, and have
            the size and strides of the plan.
        dtype: type of the slots.
        stream: CUDA stream of the current device.

    Raises:
        DecodeError: the kernel cannot be launched.
    """
    kinds = np.ascontiguousarray(plans["kind"]).view(np.uint32)[:, 0]
    for kind in set(kinds.tolist()):
        some = np.flatnonzero(kinds == kind)
        sample_bytes, across, down, number = plans["kind"][some[0]].tolist()
        host = torch.empty(len(some) * _PICTURE.itemsize, dtype=torch.uint8, device="cpu", pin_memory=True)
        records = host.numpy().view(_PICTURE)
        records["surface"], records["slot"], records["plan"] = surfaces[some], slots[some], plans["plan"][some]
        with torch.cuda.stream(stream):
            there = host.to(stream.device, non_blocking=True)
        kernel = _kernel(
            "convert_each", KernelKind(sample_bytes, (across, down), KERNELS[number]), dtype, stream.device.index
        )
        columns, rows = plans["grid"][some].max(0).tolist()
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address := ctypes.c_uint64(there.data_ptr())))
        for first in range(0, len(records), _MOST_BLOCKS_DEEP):
            address.value = there.data_ptr() + first * _PICTURE.itemsize
            depth = min(len(records) - first, _MOST_BLOCKS_DEEP)
            _run(kernel, (columns, rows, depth), stream.cuda_stream, arguments)


class _Recent(threading.local):
    """A thread's last launch and its key, and memory for the addresses of surfaces and slots."""

    key: object = None
    launch: _Launch

    def __init__(self) -> None:
        self.pictures = (ctypes.c_uint64 * (2 * _MAX_PICTURES))()


def convert_surfaces(
    surfaces: Sequence[CudaSurface],
    conversion: Conversion,
    slots: torch.Tensor,
    positions: Sequence[int],
    stream: int,
) -> None:
    """Write surfaces into slots of a batch as ``convert_frames`` does, but on the GPU, in float32.

    One kernel is launched for every sixteen: launching takes longer than everything else that Python does for a
    picture. The resize is that of PyTorch's ``interpolate`` on floats, clamped to [0, 1]. (Bicubic weights overshoot;
    torchvision clamps uint8 pictures in the same way.) The result depends on the codes alone: surfaces of the same
    picture give the same bits, whatever the layout of their planes and the position of the codes in a sample.

    This only launches kernels. Once ``stream`` has passed that point, the slots are ready and the surfaces may be
    overwritten. The first call for a kind of surface, filter and output type compiles a kernel (about a second, cached
    on disk by CuPy).

    Args:
        surfaces: surfaces of one layout, in the memory of the slots' device.
        conversion: the way in which they become pixels.
        slots: [N, 3, H, W] on the current CUDA device with ``output.dtype``, any strides; H, W must be
            ``geometry.picture_size``.
        positions: index of each surface's slot.
        stream: handle (``cudaStream_t``) of a stream of that device.

    Raises:
        ConfigurationError: the slots do not fit, the crop reaches outside the surfaces, or their layouts differ or
            contradict themselves or the colours.
        UnsupportedError: Y'CbCr is wanted from an RGB picture.
    """
    layout, shape = surfaces[0].layout, slots.shape[1:]
    step, *strides = slots.stride()
    key = (layout, conversion, shape, strides, slots.dtype, slots.device)
    if key != _recent.key:  # they are the same objects for frame after frame, so comparing is cheaper than hashing
        check_slots(slots, conversion, "cuda")
        _recent.launch = _launch(layout, conversion, tuple(strides), slots.device.index)
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
        _run(launch.function, (columns, rows, count), stream, arguments)


def _run(function: int, grid: tuple[int, int, int], stream: int, arguments: object) -> None:
    error = cuda_driver().cuLaunchKernel(function, *grid, _THREADS, 1, 1, 0, stream, arguments, None)
    if error:
        raise DecodeError(f"the conversion kernel cannot be launched: CUDA error {error}")


@lru_cache(4096)
def _launch(layout: SurfaceLayout, conversion: Conversion, strides: tuple[int, int, int], device: int) -> _Launch:
    """Prepare a launch except for the two addresses. It is the same for all frames of a clip."""
    plan = _tiled_plan(layout, conversion, strides)
    kernel = _kernel("convert", KernelKind.of(layout, conversion.geometry), conversion.output.dtype, device)
    return _Launch(kernel, _grid(plan), plan, plan.ctypes.data)


def _tiled_plan(layout: SurfaceLayout, conversion: Conversion, strides: tuple[int, int, int]) -> npt.NDArray[np.void]:
    plan = conversion_plan(layout, conversion, strides)
    plan["tile"] = _tile(plan["x"])
    return plan


def _grid(plan: npt.NDArray[np.void]) -> tuple[int, int]:
    """Return the columns and rows of blocks that a picture takes."""
    return -(-int(plan["x"]["out_size"]) // int(plan["tile"])), -(-int(plan["y"]["out_size"]) // _ROWS)


def _kernel(function: str, kind: KernelKind, dtype: torch.dtype, device: int) -> int:
    return load_kernel(
        tuple(Path(__file__).with_name(name) for name in ("numbers.h", "pixels.h", "convert.cu")),
        f"{function}<{_SAMPLES[kind.sample_bytes]}, {kind.subsampling[0]}, {kind.subsampling[1]}, {kind.filter}, "
        f"{OUTPUT_TYPES[dtype]}>",
        ("--std=c++17",),
        device,
    )


def _tile(columns: npt.NDArray[np.void]) -> int:
    """Return the output columns of a block: what one chunk of source columns covers, spread evenly over the width."""
    out_size = int(columns["out_size"])
    fitting = int((_CHUNK - 3 - 2 * columns["support"]) / columns["scale"]) + 1
    tiles = -(-out_size // min(max(fitting, 1), _MAX_TILE))
    return -(-out_size // tiles)


_Arguments = ctypes.c_void_p * 2
_recent = _Recent()
