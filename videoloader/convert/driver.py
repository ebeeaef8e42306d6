"""Call the CUDA driver without releasing the GIL, and load the kernels to launch."""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any


@cache
def cuda_driver() -> ctypes.PyDLL:
    """Return the driver, with the functions that every frame needs.

    Such a call takes a few microseconds. Releasing the GIL for it, as CuPy and PyTorch do, would mean to queue for it
    again behind all other decoding threads, once for each frame. With 14 threads that costs two thirds of the
    throughput.
    """
    driver = ctypes.PyDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    pointer, number, address = ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64
    driver.cuLaunchKernel.argtypes = [pointer, *[number] * 7, pointer, ctypes.POINTER(pointer), pointer]
    driver.cuMemcpyHtoDAsync_v2.argtypes = [address, pointer, ctypes.c_size_t, pointer]
    return driver


def load_kernel(sources: tuple[Path, ...], name: str, options: tuple[str, ...], device: int) -> int:
    """Return a kernel of CUDA C++ files, compiled on first use (about a second; CuPy caches it on disk).

    All threads need it at the same time: one compiles, the others wait.

    Args:
        sources: files that are compiled together, one after the other.
        name: name of the kernel, with its template arguments.
        options: options for the compiler.
        device: index of the CUDA device that is to run it.

    Returns:
        The handle (``CUfunction``) to launch the kernel, valid as long as the process lives.
    """
    with _compiling:
        return _compiled(sources, name, options, device)


@cache
def _compiled(sources: tuple[Path, ...], name: str, options: tuple[str, ...], device: int) -> int:
    import cupy

    code = "".join(source.read_text() for source in sources)
    with cupy.cuda.Device(device):
        module = cupy.RawModule(code=code, options=options, name_expressions=(name,))
        function = module.get_function(name).kernel
    _loaded.append(function)
    return int(function.ptr)


_compiling = threading.Lock()
# Kernels whose handles are in use: CuPy unloads a module when nothing refers to it.
_loaded: list[Any] = []
