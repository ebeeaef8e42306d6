"""Reads the samples of a picture in GPU memory like those of a frame in host memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided

from videoloader.convert.surface import CudaSurface


def surface_planes(surface: CudaSurface, stream: torch.cuda.Stream) -> list[np.ndarray]:
    """Y, Cb and Cr without padding: uint8, or uint16 for more than eight bits.

    Args:
        stream: the stream on which the surface is written.
    """
    import cupy

    layout = surface.layout
    memory = cupy.cuda.UnownedMemory(surface.pointer, layout.nbytes, surface.owner)
    on_device = cupy.ndarray(
        layout.nbytes // layout.sample_bytes, f"u{layout.sample_bytes}", cupy.cuda.MemoryPointer(memory, 0)
    )
    with cupy.cuda.Stream.from_external(stream):
        samples = on_device.get() >> layout.code_shift
    luma = (0, (layout.height, layout.width), layout.pitch, 1)
    chroma = [(first, layout.chroma_size, layout.chroma_pitch, layout.chroma_step) for first in (layout.cb, layout.cr)]
    return [
        as_strided(samples[first:], shape, (down * samples.itemsize, across * samples.itemsize), writeable=False)
        for first, shape, down, across in (luma, *(chroma if layout.model != "gray" else ()))
    ]
