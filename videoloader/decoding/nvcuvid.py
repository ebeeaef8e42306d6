"""Ask the driver directly what NVDEC can decode.

PyNvVideoCodec's ``GetDecoderCaps`` makes a CUDA context for each query, which takes 0.15 s and GPU memory that may not
be available, and it loads and unloads the driver's library each time. One in some thousand queries crashed.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import torch

from videoloader.errors import ConfigurationError

_LIBRARY = "nvcuvid.dll" if os.name == "nt" else "libnvcuvid.so.1"


class Capabilities(ctypes.Structure):
    """``CUVIDDECODECAPS`` of ``cuviddec.h`` (NVIDIA Video Codec SDK 13), for one codec, chroma format and bit depth.

    Attributes:
        codec, chroma, bit_depth_minus8: the query, with ``cudaVideoCodec`` and ``cudaVideoChromaFormat`` numbers.
        supported: not 0 if NVDEC decodes it.
        num_engines: number of the GPU's hardware engines for that codec.
        output_formats: a bit for each ``cudaVideoSurfaceFormat``.
        max_width, max_height, min_width, min_height: bounds of coded pictures, in pixels.
        max_blocks: maximum number of 16×16 blocks in a picture.
        histogram, histogram_bits, max_histogram_bins: facts about luma histograms.
    """

    _fields_ = (
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bit_depth_minus8", ctypes.c_uint),
        ("reserved1", ctypes.c_uint * 3),
        ("supported", ctypes.c_uint8),
        ("num_engines", ctypes.c_uint8),
        ("output_formats", ctypes.c_uint16),
        ("max_width", ctypes.c_uint),
        ("max_height", ctypes.c_uint),
        ("max_blocks", ctypes.c_uint),
        ("min_width", ctypes.c_uint16),
        ("min_height", ctypes.c_uint16),
        ("histogram", ctypes.c_uint8),
        ("histogram_bits", ctypes.c_uint8),
        ("max_histogram_bins", ctypes.c_uint16),
        ("reserved3", ctypes.c_uint * 10),
    )


def ask_capabilities(gpu: int, codec: int, chroma: int, bit_depth: int) -> Capabilities:
    """Return the capabilities of a GPU's NVDEC for one kind of stream.

    Args:
        gpu: CUDA device number.
        codec: number in ``cudaVideoCodec``.
        chroma: number in ``cudaVideoChromaFormat``.
        bit_depth: bits of a sample.

    Raises:
        ConfigurationError: the driver's NVDEC library is missing, or the query fails.
    """
    capabilities = Capabilities(codec, chroma, bit_depth - 8)
    ask = _library().cuvidGetDecoderCaps
    with torch.cuda.device(gpu):
        torch.cuda.mem_get_info()  # any runtime call will do: it makes the GPU's context current in this thread
        result = ask(ctypes.byref(capabilities))
    if result:
        raise ConfigurationError(f"the driver of GPU {gpu} cannot report what its NVDEC decodes: CUDA error {result}")
    return capabilities


@cache
def _library() -> Any:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise ConfigurationError(
            f"NVDEC's library cannot be loaded ({error}): it comes with NVIDIA's driver; a container has it "
            "where NVIDIA_DRIVER_CAPABILITIES holds 'video'"
        ) from error
