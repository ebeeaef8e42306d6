"""Put pictures into GPU memory that we own: frames from libavcodec, and copies of NVDEC's surfaces.

The memory that pictures pass through is used again. Asking PyTorch for new memory each time would release the GIL;
``driver`` explains what that costs.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque

import av
import av.video.plane
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.driver import cuda_driver
from videoloader.convert.surface import CudaSurface, pixel_format, planes_layout
from videoloader.errors import DecodeError
from videoloader.runtime.device import allocate, is_forked
from videoloader.runtime.forks import after_fork, keep_forever

# Smaller planes are copied faster than the GIL can be taken again; during larger copies other threads need it.
_HELD_BYTES = 1 << 15
# Pieces of each kind that are kept for a stream: one is filled while the other is read.
_PIECES = 2
# GPU memory larger than this many bytes is freed. Keeping it would take too much in total, and compared with the
# transfer of that much data, the cost of asking again is small.
_LARGEST_IDLE = 8 << 20


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
    if pixels is None or pixels.packed:
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


class PinnedMemory:
    """Page-locked memory, from which a GPU reads while the CPU goes on.

    Attributes:
        array: uint8[size].
        view: view of its bytes.
        pointer: its address.
        sent: event recorded on the stream after the last transfer.
    """

    def __init__(self, size: int) -> None:
        self.array: npt.NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True).numpy()
        self.view = self.array.data
        self.pointer = self.array.ctypes.data
        self.sent = torch.cuda.Event()  # type: ignore[no-untyped-call]


# Keyed by device and stream. A thread usually has its own stream, and so its own memory, which its core has cached.
# Deques are thread-safe. ``free_staging`` empties both.
_pinned: defaultdict[tuple[int, int], deque[PinnedMemory]] = defaultdict(deque)


def take_pinned(size: int, stream: torch.cuda.Stream) -> PinnedMemory:
    """Return memory of at least ``size`` bytes that no transfer uses; return it with ``give_back_pinned``.

    This waits if the stream is behind with the transfers.
    """
    idle = _pinned[stream.device.index, stream.cuda_stream]
    try:
        memory = idle.popleft()
    except IndexError:
        return PinnedMemory(size)
    if not memory.sent.query():  # type: ignore[no-untyped-call]
        if len(idle) < _PIECES - 1:
            idle.appendleft(memory)
            return PinnedMemory(size)
        memory.sent.synchronize()
    return memory if len(memory.array) >= size else PinnedMemory(size)


def give_back_pinned(memory: PinnedMemory, stream: torch.cuda.Stream) -> None:
    """Let memory be used again once the work now on the stream is done."""
    memory.sent.record(stream)
    _pinned[stream.device.index, stream.cuda_stream].append(memory)


class GpuMemory:
    """A piece of GPU memory; see ``take_gpu``.

    Attributes:
        tensor: uint8, at least of the size asked for.
    """

    def __init__(self, tensor: torch.Tensor, idle: deque[torch.Tensor]) -> None:
        self.tensor, self._idle = tensor, idle

    def __del__(self) -> None:
        if self.tensor.numel() <= _LARGEST_IDLE:
            self._idle.append(self.tensor)


_gpu: defaultdict[tuple[int, int], deque[torch.Tensor]] = defaultdict(lambda: deque(maxlen=_PIECES))


def take_gpu(size: int, stream: torch.cuda.Stream) -> GpuMemory:
    """Return GPU memory for a stream. Once it is dropped, later work on that stream uses it again."""
    idle = _gpu[stream.device.index, stream.cuda_stream]
    try:
        tensor = idle.pop()
    except IndexError:
        tensor = None
    if tensor is None or tensor.numel() < size:
        # PyTorch would ask for 20 MB of GPU memory for each stream that needs its own.
        tensor = allocate((size,), torch.uint8, stream.device)
        tensor.record_stream(stream)
    return GpuMemory(tensor, idle)


def free_staging(stream: torch.cuda.Stream) -> None:
    """Free the memory that is kept for a stream, when its owner no longer puts pictures into GPU memory.

    Streams are used again, most of them by sessions of NVDEC, which need no such memory. Without this, a process would
    keep some for each stream that it ever had. This waits for the transfers. It does nothing in a forked process.
    """
    if is_forked():
        return
    key = stream.device.index, stream.cuda_stream
    _gpu.pop(key, None)
    for memory in _pinned.pop(key, ()):
        memory.sent.synchronize()


def _leave_to_parent() -> None:
    keep_forever(_gpu.copy())  # PyTorch asks CUDA when it frees such memory, and a forked process cannot
    _gpu.clear()


after_fork(_leave_to_parent)
