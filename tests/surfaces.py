"""The samples of a surface in GPU memory, as those of a frame in host memory are looked at."""

from __future__ import annotations

import numpy as np

from videoloader.convert import CudaSurface


def surface_planes(surface: CudaSurface, cuda_stream: int) -> list[np.ndarray]:
    """Y, Cb and Cr without padding: uint8, or uint16 for more than eight bits.

    Args:
        cuda_stream: handle of the stream that the surface is written on.
    """
    import cupy

    wide = surface.layout in ("p016", "yuv444_16")
    subsampled = surface.layout in ("nv12", "p016")
    rows = surface.height + (-(-surface.height // 2) if subsampled else 2 * surface.height)
    memory = cupy.cuda.UnownedMemory(surface.pointer, surface.pitch * rows, surface.owner)
    array = cupy.ndarray((rows, surface.pitch), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))
    with cupy.cuda.ExternalStream(cuda_stream):
        host = array.get()
    if wide:
        host = host.view(np.uint16) >> (16 - surface.bit_depth)
    luma, chroma = host[: surface.height, : surface.width], host[surface.height :]
    if subsampled:
        width = -(-surface.width // 2)
        return [luma, chroma[:, 0 : 2 * width : 2], chroma[:, 1 : 2 * width : 2]]
    return [luma, *(plane[:, : surface.width] for plane in np.split(chroma, 2))]
