"""The capabilities of NVDEC, asked of the driver itself.

PyNvVideoCodec's ``GetDecoderCaps`` makes a CUDA context for each question, which takes 0.15 s and memory of a GPU that
may have none left, and loads and unloads the driver's library around it. One of some thousand questions crashed.
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
    """``CUVIDDECODECAPS`` of ``cuviddec.h``, NVIDIA Video Codec SDK 13: of one codec, chroma format and bit depth.

    Attributes:
        codec, chroma, bit_depth_minus8: the question; ``cudaVideoCodec`` and ``cudaVideoChromaFormat`` numbers.
        supported: not 0 where NVDEC decodes it.
        num_engines: engines of the GPU for that codec.
        output_formats: a bit for each ``cudaVideoSurfaceFormat``.
        max_width, max_height, min_width, min_height: bounds of coded pictures, in pixels.
        max_blocks: most blocks of 16×16 pixels in a picture.
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
    """The capabilities of a GPU's NVDEC for one kind of stream.

    Args:
        gpu: CUDA device number.
        codec: number in ``cudaVideoCodec``.
        chroma: number in ``cudaVideoChromaFormat``.
        bit_depth: bits of a sample.

    Raises:
        ConfigurationError: the driver's part for NVDEC is missing, or does not answer.
    """
    capabilities = Capabilities(codec, chroma, bit_depth - 8)
    ask = _library().cuvidGetDecoderCaps
    with torch.cuda.device(gpu):
        torch.cuda.mem_get_info()  # any call of the runtime: it makes the GPU's context this thread's
        result = ask(ctypes.byref(capabilities))
    if result:
        raise ConfigurationError(f"the driver of GPU {gpu} does not say what its NVDEC can do: CUDA error {result}")
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
