"""Convert pictures on the CPU with native code (``convert.cpp``), if it was compiled at installation."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.filters import KERNELS, kernel_of
from videoloader.convert.plan import PLAN, conversion_plan
from videoloader.convert.spec import OUTPUT_TYPES, Conversion
from videoloader.convert.surface import SurfaceLayout, pixel_format, planes_layout
from videoloader.errors import ConfigurationError


class _Kind(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("sample_bytes", "halvings_x", "halvings_y", "filter", "output")]


class _Picture(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("y", "cb", "cr", "slot")]


class HostSurface(NamedTuple):
    """A decoded picture in memory.

    Attributes:
        planes: addresses of the first sample of Y, Cb and Cr, or of G, B and R.
        layout: layout of the other samples; its ``cb`` and ``cr`` are not used.
        owner: object that keeps the memory alive.
    """

    planes: tuple[int, int, int]
    layout: SurfaceLayout
    owner: object


class _Call(NamedTuple):
    plan: npt.NDArray[np.void]
    plan_address: int
    kind: _Kind


class _Recent(threading.local):
    """A thread's last call and its key: the objects are the same for picture after picture."""

    key: object = None
    call: _Call


@cache
def native_code() -> ctypes.CDLL | None:
    """Load the library; None if it was not compiled, or not for this processor, or if ``VIDEOLOADER_NATIVE=0``.

    Its calls release the GIL.

    Raises:
        ConfigurationError: the system cannot load it, as without a free descriptor.
    """
    files = [Path(__file__).with_name(f"_native{suffix}") for suffix in EXTENSION_SUFFIXES]
    found = next((file for file in files if file.exists()), None)
    if found is None or os.environ.get("VIDEOLOADER_NATIVE") == "0":
        return None
    try:
        library = ctypes.CDLL(str(found))
    except OSError as error:
        raise ConfigurationError(f"native code cannot be loaded ({error}): VIDEOLOADER_NATIVE=0 does without") from None
    suits = getattr(library, "videoloader_suits", None)  # it may have been compiled from other sources
    return library if suits and suits(PLAN.itemsize, len(KERNELS), len(OUTPUT_TYPES)) else None


def host_surface(frame: av.VideoFrame) -> HostSurface | None:
    """Describe where a decoded frame lies in memory.

    Returns:
        The picture, or None if native code does not take it: there is no native code; the pixel format is packed
        Y'CbCr, big-endian, or has a palette or floats; the frame is on a GPU; or its rows lie bottom up.
    """
    pixels = pixel_format(frame.format.name)
    if pixels is None or native_code() is None:
        return None
    planes = frame.planes[: pixels.planes]  # alpha comes last
    pitches = tuple([plane.line_size for plane in planes])
    if min(pitches) <= 0 or pitches[-1] != pitches[min(1, len(planes) - 1)]:
        return None
    layout, _ = planes_layout(pixels, frame.width, frame.height, pitches)
    y = planes[0].buffer_ptr
    if pixels.planes == 3:
        return HostSurface((y, planes[1].buffer_ptr, planes[2].buffer_ptr), layout, frame)
    if pixels.model == "gray":
        return HostSurface((y, y, y), layout, frame)
    if pixels.packed:
        green, blue, red = (y + layout.sample_bytes * pixels.packed.index(each) for each in "gbr")
        return HostSurface((green, blue, red), layout, frame)
    first, second = planes[1].buffer_ptr, planes[1].buffer_ptr + layout.sample_bytes
    return HostSurface((y, second, first) if pixels.swapped else (y, first, second), layout, frame)


def convert_host_surfaces(
    surfaces: Sequence[HostSurface],
    conversion: Conversion,
    slots: torch.Tensor,
    positions: Sequence[int],
) -> None:
    """Do for pictures in memory what ``convert_surfaces`` does, in one call, with the same arithmetic in the same
    order.

    Args:
        surfaces: surfaces of one layout.
        conversion: the way in which they become pixels.
        slots: [N, 3, H, W] on the CPU, with ``output.dtype`` and pictures of ``geometry.picture_size``, any strides.
        positions: index of each surface's slot.

    Raises:
        ConfigurationError: the crop reaches outside the pictures, or the matrix is identity and chroma is subsampled.
        UnsupportedError: Y'CbCr is wanted from an RGB picture.
        MemoryError: there is no memory for the rows of floats in between.
    """
    step, *strides = slots.stride()
    key = (surfaces[0].layout, conversion, strides)
    if key != _recent.key:
        _recent.call, _recent.key = _call(surfaces[0].layout, conversion, tuple(strides)), key
    call, library = _recent.call, native_code()
    assert library is not None
    start, step = slots.data_ptr(), step * slots.element_size()
    pictures = (_Picture * len(surfaces))(
        *[_Picture(*surface.planes, start + at * step) for surface, at in zip(surfaces, positions, strict=True)]
    )
    plan = ctypes.c_void_p(call.plan_address)
    if not library.videoloader_convert(plan, ctypes.byref(call.kind), pictures, len(surfaces)):
        raise MemoryError("no memory for the conversion of pictures")


@lru_cache(256)
def _call(layout: SurfaceLayout, conversion: Conversion, strides: tuple[int, int, int]) -> _Call:
    plan, number = conversion_plan(layout, conversion, strides), KERNELS.index(kernel_of(conversion.geometry))
    output = list(OUTPUT_TYPES).index(conversion.output.dtype)
    kind = _Kind(layout.sample_bytes, *layout.subsampling, number, output)
    return _Call(plan, plan.ctypes.data, kind)


_recent = _Recent()
