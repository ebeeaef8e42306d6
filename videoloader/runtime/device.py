"""Devices: their names, CUDA streams, and memory for frames."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import math
import os
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

import torch

from videoloader.errors import ConfigurationError, enough_memory
from videoloader.runtime.forks import after_fork
from videoloader.runtime.launchers import local_rank
from videoloader.runtime.shared_memory import MemoryBlock, new_block, new_memory, own_block

_GPU_PACKAGES = ("PyNvVideoCodec", "cupy")
# Only glibc has this function. Its first call takes a third of a second for each GB that it gives back.
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
_SECONDS_BETWEEN_TRIMS = 10.0
_last_trim = -math.inf


@cache
def _is_there(package: str) -> bool:
    """Whether a package is installed, looked for once: that takes Python's lock for imports.

    An exception of a signal's handler may leave that lock taken, and then all other threads wait for it.
    """
    try:
        return importlib.util.find_spec(package) is not None
    except (ValueError, OSError):  # a stand-in for it, as in the build of documentation; a folder that cannot be read
        return False


def _missing() -> list[str]:
    return [name for name in _GPU_PACKAGES if not _is_there(name)]


def resolve_device(device: str | torch.device) -> torch.device:
    """The device that a name means.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``. ``"auto"`` is ``"cuda"`` where there is a CUDA device
            and the packages for it are installed, else the CPU. It is also the CPU in a process that was forked from
            one that had used CUDA, such as a ``DataLoader``'s worker. ``"cuda"`` is the current CUDA device. If that is
            the first device, as it is before ``torch.cuda.set_device``, and a launcher (torchrun, mpirun, srun) started
            several processes on this machine, ``"cuda"`` is the device numbered by the process's ``LOCAL_RANK``, so
            that they do not all load one GPU; write ``"cuda:0"`` for the first device itself.

    Raises:
        ConfigurationError: the CUDA device is not available, or CUDA cannot be used in this process.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and not _missing() and not is_forked() else "cpu"
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise ConfigurationError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}") from None
    if resolved.type == "cpu":
        return resolved
    if resolved.type != "cuda":
        raise ConfigurationError(f"device is {device!r}; videos are decoded on 'cpu' or 'cuda'")
    check_gpu(resolved)
    if missing := _missing():
        raise ConfigurationError(
            f"device is {device!r}, but {' and '.join(missing)} is not installed: "
            "install videoloader[cuda12] or videoloader[cuda13]"
        )
    return torch.device("cuda", _default_index() if resolved.index is None else resolved.index)


def check_gpu(device: torch.device) -> None:
    """Raise ConfigurationError if the device is a GPU that this process cannot use."""
    if device.type != "cuda":
        return
    raise_if_forked(device)
    if not torch.cuda.is_available():
        raise ConfigurationError(f"device is {str(device)!r}, but torch finds no CUDA device")
    if (device.index or 0) >= torch.cuda.device_count():
        raise ConfigurationError(f"device is {str(device)!r}, but there are {torch.cuda.device_count()} CUDA devices")


def raise_if_forked(device: torch.device) -> None:
    """Raise ConfigurationError if the device is a GPU and this process was forked from one that had used CUDA."""
    if device.type == "cuda" and is_forked():
        raise ConfigurationError(
            f"{str(device)!r} cannot be used in this process, since it was forked from one that had used CUDA: start "
            'it with the method "spawn" of multiprocessing, or use the device "cpu" here'
        )


def is_forked() -> bool:
    """Whether this process was forked from one that had used CUDA, so that CUDA cannot be used in it."""
    return torch.cuda._is_in_bad_fork()


def _default_index() -> int:
    # The remainder is for launchers that show each process one device only.
    return torch.cuda.current_device() or (local_rank() or 0) % torch.cuda.device_count()


# CUDA streams for reuse, by device. They are never destroyed: when a tensor is freed, however late, PyTorch still
# records events on the streams that it was used on.
_spare_streams: defaultdict[int, list[Any]] = defaultdict(list)


def own_stream(device: torch.device, owner: object) -> torch.cuda.Stream:
    """A CUDA stream that nothing else uses for as long as its owner lives.

    PyTorch's own streams come from a pool of 32 and are shared. This stream has the highest priority: its kernels are
    short, and if they queued behind a network's, which take milliseconds, NVDEC would wait for frames to be converted.
    """
    import cupy

    try:
        stream = _spare_streams[device.index].pop()
    except IndexError:
        with cupy.cuda.Device(device.index):
            first = torch.cuda.Stream.priority_range()[1]  # type: ignore[call-arg]
            stream = cupy.cuda.Stream(non_blocking=True, priority=first)
    # The finalizer hangs on the owner: weak references to PyTorch's streams can outlive them and dangle (version 2.11).
    weakref.finalize(owner, _spare_streams[device.index].append, stream).atexit = False
    return torch.cuda.ExternalStream(stream.ptr, device)  # type: ignore[no-untyped-call]


@cache
def _idle_stream(device: torch.device) -> torch.cuda.Stream:
    return own_stream(device, _idle_stream)


def trim_heaps() -> None:
    """Give the memory that is free in the C library's heaps back to the system, unless that was done a moment ago.

    What many threads allocate and free leaves heaps that are larger than what is in use, which glibc would keep.
    """
    global _last_trim
    if _malloc_trim is not None and time.monotonic() - _last_trim >= _SECONDS_BETWEEN_TRIMS:
        _last_trim = time.monotonic()
        _malloc_trim(0)


def on_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """Run the block's PyTorch work on this CUDA stream; None does nothing, for the CPU."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def profiler_range(name: str, device: torch.device) -> AbstractContextManager[None]:
    """A named range for Nsight and other NVTX tools, on CUDA devices."""
    return torch.cuda.nvtx.range(f"videoloader {name}") if device.type == "cuda" else nullcontext()


def allocate(size: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Uninitialised memory that any CUDA stream may write to at once.

    It is allocated on a stream that nothing ever runs on. PyTorch reuses a block only when all streams recorded for its
    last tensor are done with it, so such memory has nothing to wait for.

    Raises:
        ConfigurationError: CUDA cannot be used in this process.
    """
    if device.type == "cpu":
        with enough_memory(_described(size, dtype)):
            return new_memory(math.prod(size) * dtype.itemsize).view(dtype).view(tuple(size))
    raise_if_forked(device)
    with on_stream(_idle_stream(device)):
        return torch.empty(tuple(size), dtype=dtype, device=device)


def _described(size: Sequence[int], dtype: torch.dtype) -> str:
    """``1.9 GB of frames (1 × 300 × 3 × 1080 × 1920, uint8)``."""
    gigabytes = math.prod(size) * dtype.itemsize / 1e9
    return f"{gigabytes:,.1f} GB of frames ({' × '.join(map(str, size))}, {str(dtype).removeprefix('torch.')})"


def event_to_sleep_for(stream: torch.cuda.Stream) -> torch.cuda.Event:
    """Record an event after the stream's work. A thread that waits for it sleeps instead of spinning."""
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event


def hand_over(device: torch.device, events: Iterable[torch.cuda.Event], tensors: Iterable[torch.Tensor]) -> None:
    """Make the current CUDA stream wait for tensors, and keep their memory until it is done. Does nothing on the CPU.

    Args:
        device: device of the tensors.
        events: the events after which they are complete.
        tensors: tensors, each the owner of its allocation.
    """
    if device.type != "cuda":
        return
    stream = torch.cuda.current_stream(device)
    for event in events:
        stream.wait_event(event)
    for tensor in tensors:
        tensor.record_stream(stream)


class HostMemory:
    """Memory on the CPU that is reused once no tensor refers to it any more.

    glibc returns memory of 32 MiB and more to the system at once, and the system clears each new page when it is first
    written, which costs 4 % of the decoding time of small videos on 2 cores. So the two pieces that were freed last are
    kept: one is filled while the consumer holds the other.

    Args:
        shared: whether other processes can map it; see ``shared_memory``.
    """

    def __init__(self, shared: bool = False) -> None:
        self._new = new_block if shared else own_block
        # Blocks, each with the weak reference to the memory that was lent of it.
        self._lent: dict[object, tuple[weakref.ref[Any], MemoryBlock]] = {}
        self._free: deque[tuple[weakref.ref[Any], MemoryBlock]] = deque(maxlen=2)

    def __reduce__(self) -> tuple[type[HostMemory], tuple[()]]:
        return HostMemory, ()

    def allocate(self, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Uninitialised memory."""
        needed = math.prod(size) * dtype.itemsize
        try:
            block: MemoryBlock | None = self._free.pop()[1]
        except IndexError:
            block = None
        if block is None or not needed <= len(block.memory) <= 2 * needed:
            with enough_memory(_described(size, dtype)):
                block = self._new(needed)
        # Tensors keep the array alive, not the block, so the block is free when the array dies.
        memory, key = block.memory[:needed], object()
        # Then it moves from one to the other without a Python function, which a signal's handler could interrupt: the
        # block would stay for ever. ``next`` takes the weak reference for its default.
        give_back = partial(next, map(self._free.append, map(self._lent.pop, [key])))
        self._lent[key] = weakref.ref(memory, give_back), block
        return torch.from_numpy(memory).view(dtype).view(tuple(size))


def _leave_garbage_to_parent() -> None:
    # PyTorch asks CUDA when it frees events, or memory that several streams used. CUDA refuses in a forked process, and
    # that ends the process. So its garbage collector must find nothing that the parent left behind, such as a loop that
    # was not finished.
    if is_forked():
        gc.freeze()


after_fork(_leave_garbage_to_parent)
