"""Pictures in GPU memory of our own: those that libavcodec decoded, and copies of NVDEC's."""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.surface import CudaSurface, SurfaceLayout, pixel_format, tight_layout


def upload_frame(frame: av.VideoFrame, stream: torch.cuda.Stream) -> CudaSurface | None:
    """Copy a decoded frame's planes to the GPU, through pinned memory and in one transfer.

    The transfer only starts here. Both memories are PyTorch's: the pinned one is used again when the transfer is done,
    the GPU's by whatever comes on ``stream`` after the surface is dropped. So the surface may be dropped as soon as its
    conversion is launched on that stream; on another stream nothing may read it.

    Args:
        frame: in memory; it may be reused when this returns.
        stream: of the GPU wanted.

    Returns:
        None where the kernel does not take the pixel format: it is packed, with a palette, big-endian, of floats, or
        on a GPU already.
    """
    pixels = pixel_format(frame.format.name)
    if pixels is None:
        return None
    layout = tight_layout(pixels, frame.width, frame.height)
    rows, columns = layout.chroma_size
    shapes = [(layout.height, layout.width), *[(rows, columns * layout.chroma_step)] * (pixels.planes - 1)]
    size = sum(height * width for height, width in shapes) * layout.sample_bytes
    staging = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    _copy_planes(frame, layout, shapes, staging.numpy())
    with torch.cuda.stream(stream):
        memory = torch.empty(size, dtype=torch.uint8, device=stream.device)
        memory.copy_(staging, non_blocking=True)
    return CudaSurface(memory.data_ptr(), layout, memory)


def _copy_planes(
    frame: av.VideoFrame, layout: SurfaceLayout, shapes: list[tuple[int, int]], target: npt.NDArray[np.uint8]
) -> None:
    """One copy a plane, for which numpy lets go of Python's lock; one plane after the other without gaps."""
    begin = 0
    for plane, (height, width) in zip(frame.planes, shapes, strict=False):  # alpha comes last
        row_bytes = width * layout.sample_bytes
        # Rows that libav has bottom up come as they lie in memory.
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(height, -1)
        rows = rows if plane.line_size > 0 else rows[::-1]
        end = begin + height * row_bytes
        target[begin:end].reshape(height, row_bytes)[...] = rows[:, :row_bytes]
        begin = end


def copy_surface(surface: CudaSurface, stream: torch.cuda.Stream) -> CudaSurface:
    """A copy of a surface that outlives the decoder's: made on a stream, owned by a uint8 tensor of that stream."""
    import cupy

    size = surface.layout.nbytes
    with torch.cuda.stream(stream):
        memory = torch.empty(size, dtype=torch.uint8, device=stream.device)
    device_to_device = cupy.cuda.runtime.memcpyDeviceToDevice
    cupy.cuda.runtime.memcpyAsync(memory.data_ptr(), surface.pointer, size, device_to_device, stream.cuda_stream)
    return CudaSurface(memory.data_ptr(), surface.layout, memory)
