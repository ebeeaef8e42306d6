"""Put pictures into GPU memory that we own: frames from libavcodec, and copies of NVDEC's surfaces."""

from __future__ import annotations

import ctypes

import av
import av.video.plane
import numpy as np
import torch

from videoloader.convert.driver import cuda_driver
from videoloader.convert.staging import PinnedMemory, give_back_pinned, take_gpu, take_pinned
from videoloader.convert.surface import CudaSurface, pixel_format, planes_layout
from videoloader.errors import DecodeError

# Smaller planes are copied faster than the GIL can be taken again; during larger copies other threads need it.
_HELD_BYTES = 1 << 15


def upload_frame(frame: av.VideoFrame, stream: torch.cuda.Stream) -> CudaSurface | None:
    """Copy a decoded frame's planes to the GPU, through pinned memory and in one transfer.

    The transfer only starts here. Once the surface is dropped, later work on ``stream`` reuses its memory. So the
    surface may be dropped as soon as its conversion is launched on that stream, but no other stream may read it.

    Args:
        frame: frame in memory; it may be reused when this returns.
        stream: stream of the current CUDA device.

    Returns:
        The surface, or None if the kernel does not take the pixel format: it is packed, big-endian, has a palette or
        floats, or is already on a GPU.

    Raises:
        DecodeError: the driver refuses the transfer.
    """
    pixels = pixel_format(frame.format.name)
    if pixels is None:
        return None
    planes = frame.planes[: pixels.planes]  # alpha comes last
    pitches = [plane.line_size for plane in planes]
    as_they_are = min(pitches) > 0 and pitches[1:] in ([], pitches[1:2], pitches[1:2] * 2)
    layout, ranges = planes_layout(pixels, frame.width, frame.height, tuple(pitches) if as_they_are else None)
    size = ranges[-1].stop
    staging = take_pinned(size, stream)
    for plane, part in zip(planes, ranges, strict=True):
        if as_they_are:
            _copy_plane(plane, part, staging)
        else:
            _copy_rows(plane, part, staging)
    memory = take_gpu(size, stream)
    pointer = memory.tensor.data_ptr()
    error = cuda_driver().cuMemcpyHtoDAsync_v2(pointer, staging.pointer, size, stream.cuda_stream)
    give_back_pinned(staging, stream)
    if error:
        raise DecodeError(f"a picture cannot be copied to the GPU: CUDA error {error}")
    return CudaSurface(pointer, layout, memory)


def _copy_plane(plane: av.video.plane.VideoPlane, part: range, staging: PinnedMemory) -> None:
    """Copy a plane with the gaps between its rows, but nothing after the last row, where memory may end."""
    if len(part) <= _HELD_BYTES:
        staging.view[part.start : part.stop] = memoryview(plane)[: len(part)]
    else:
        ctypes.memmove(staging.pointer + part.start, plane.buffer_ptr, len(part))


def _copy_rows(plane: av.video.plane.VideoPlane, part: range, staging: PinnedMemory) -> None:
    """Copy a plane's rows without gaps, from top to bottom even if they lie bottom up in memory."""
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, -1)
    rows = rows if plane.line_size > 0 else rows[::-1]
    target = staging.array[part.start : part.stop].reshape(plane.height, -1)
    target[...] = rows[:, : target.shape[1]]


def copy_surface(surface: CudaSurface, stream: torch.cuda.Stream) -> CudaSurface:
    """Copy a surface so that it outlives the decoder's. A uint8 tensor of the stream owns the copy."""
    import cupy

    size = surface.layout.nbytes
    with torch.cuda.stream(stream):
        memory = torch.empty(size, dtype=torch.uint8, device=stream.device)
    device_to_device = cupy.cuda.runtime.memcpyDeviceToDevice
    cupy.cuda.runtime.memcpyAsync(memory.data_ptr(), surface.pointer, size, device_to_device, stream.cuda_stream)
    return CudaSurface(memory.data_ptr(), surface.layout, memory)
