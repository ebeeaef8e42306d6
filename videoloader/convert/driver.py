"""The CUDA driver, called without letting go of Python's lock."""

from __future__ import annotations

import ctypes
import sys
from functools import cache


@cache
def cuda_driver() -> ctypes.PyDLL:
    """The driver's functions that every frame needs.

    Such a call takes a few microseconds. To let go of Python's lock for it, as CuPy and PyTorch do, means to queue
    for the lock again behind all other decoding threads, once a frame: with 14 threads that costs two thirds of the
    frames.
    """
    driver = ctypes.PyDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    pointer, number, address = ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64
    driver.cuLaunchKernel.argtypes = [pointer, *[number] * 7, pointer, ctypes.POINTER(pointer), pointer]
    driver.cuMemcpyHtoDAsync_v2.argtypes = [address, pointer, ctypes.c_size_t, pointer]
    return driver
