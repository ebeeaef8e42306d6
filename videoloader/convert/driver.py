"""The CUDA driver, called without letting go of Python's lock, and the kernels it is to run."""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any


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


def load_kernel(sources: tuple[Path, ...], name: str, options: tuple[str, ...], device: int) -> int:
    """A kernel of CUDA C++ files, compiled when first asked for (about a second; CuPy keeps it on disk).

    All threads need it at once: one compiles, the others wait.

    Args:
        sources: the files, which are compiled one after the other as one.
        name: name of the kernel, with its template arguments.
        options: options for the compiler.
        device: index of the CUDA device that is to run it.

    Returns:
        The handle (``CUfunction``) to launch it by, as long as the process lives.
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
# Functions whose handles are in use; CuPy unloads a module when nothing refers to it.
_loaded: list[Any] = []
