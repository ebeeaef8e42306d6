"""The device that decodes and holds the frames, and memory on it."""

from __future__ import annotations

import importlib.util
import math
import os
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch

from videoloader.errors import ConfigurationError, enough_memory
from videoloader.order.ranks import local_rank
from videoloader.shared_memory import MemoryBlock, new_block, new_memory, own_block

_GPU_PACKAGES = ("PyNvVideoCodec", "cupy")


def resolve_device(device: str | torch.device) -> torch.device:
    """The device that a name means.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``. ``"auto"`` is ``"cuda"`` where there is a CUDA device
            and the packages for it are installed, else the CPU. ``"cuda"`` is the current CUDA device. Where that is
            the first, as it is before ``torch.cuda.set_device``, and a launcher (torchrun, mpirun, srun) started this
            process as one of several of its machine, it is the device of the process's number among them
            (``LOCAL_RANK``), so that they do not all load one GPU; for the first device itself write ``"cuda:0"``.

    Raises:
        ConfigurationError: a CUDA device is asked for that cannot be had.
    """
    missing = [name for name in _GPU_PACKAGES if importlib.util.find_spec(name) is None]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and not missing else "cpu"
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise ConfigurationError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}") from None
    if resolved.type == "cpu":
        return resolved
    if resolved.type != "cuda":
        raise ConfigurationError(f"device is {device!r}; videos are decoded on 'cpu' or 'cuda'")
    if not torch.cuda.is_available():
        raise ConfigurationError(f"device is {device!r}, but torch finds no CUDA device")
    if missing:
        raise ConfigurationError(
            f"device is {device!r}, but {' and '.join(missing)} is not installed: "
            "install videoloader[cuda12] or videoloader[cuda13]"
        )
    index = _default_index() if resolved.index is None else resolved.index
    if index >= torch.cuda.device_count():
        raise ConfigurationError(f"device is {device!r}, but there are {torch.cuda.device_count()} CUDA devices")
    return torch.device("cuda", index)


def _default_index() -> int:
    # A launcher that shows each process one device only leaves no choice: hence the remainder.
    return torch.cuda.current_device() or (local_rank() or 0) % torch.cuda.device_count()


# CUDA streams that were used before, by device. None is ever ended: PyTorch still records events on the streams that
# a tensor was used on when the tensor goes, however late that is.
_spare_streams: defaultdict[int, list[Any]] = defaultdict(list)


def own_stream(device: torch.device, owner: object) -> torch.cuda.Stream:
    """A CUDA stream that nothing else runs on, as long as its owner lives.

    PyTorch's own come from a pool of 32, which it hands out again. Its kernels go first: they are short, and were
    they to queue behind those of a network, which take milliseconds, NVDEC would wait for pictures to be converted.
    """
    import cupy

    try:
        stream = _spare_streams[device.index].pop()
    except IndexError:
        with cupy.cuda.Device(device.index):
            first = torch.cuda.Stream.priority_range()[1]  # type: ignore[call-arg]
            stream = cupy.cuda.Stream(non_blocking=True, priority=first)
    # Of the owner, since weak references to PyTorch's streams outlive them and point nowhere (version 2.11).
    weakref.finalize(owner, _spare_streams[device.index].append, stream).atexit = False
    return torch.cuda.ExternalStream(stream.ptr, device)  # type: ignore[no-untyped-call]


@cache
def _idle_stream(device: torch.device) -> torch.cuda.Stream:
    return own_stream(device, _idle_stream)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """Put the block's PyTorch work on this CUDA stream; None on the CPU."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def profiler_range(name: str, device: torch.device) -> AbstractContextManager[None]:
    """A range of this name in what Nsight and other NVTX tools show, on CUDA devices."""
    return torch.cuda.nvtx.range(f"videoloader {name}") if device.type == "cuda" else nullcontext()


def allocate(size: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Uninitialised memory that any CUDA stream may write to at once.

    It is taken for a stream that nothing ever runs on. PyTorch gives a block out again only when all streams
    recorded for its last tensor are done with it, so such memory has nothing to wait for.
    """
    if device.type == "cpu":
        with enough_memory(_described(size, dtype)):
            return new_memory(math.prod(size) * dtype.itemsize).view(dtype).view(tuple(size))
    with on_stream(_idle_stream(device)):
        return torch.empty(tuple(size), dtype=dtype, device=device)


def _described(size: Sequence[int], dtype: torch.dtype) -> str:
    """``1.9 GB of frames (1 × 300 × 3 × 1080 × 1920, uint8)``."""
    gigabytes = math.prod(size) * dtype.itemsize / 1e9
    return f"{gigabytes:,.1f} GB of frames ({' × '.join(map(str, size))}, {str(dtype).removeprefix('torch.')})"


def event_to_sleep_for(stream: torch.cuda.Stream) -> torch.cuda.Event:
    """Record an event behind the stream's work. A thread that waits for it leaves its core to others."""
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event


def hand_over(device: torch.device, events: Iterable[torch.cuda.Event], tensors: Iterable[torch.Tensor]) -> None:
    """Let the caller's current CUDA stream wait for tensors, and their memory for that stream. Does nothing on the CPU.

    Args:
        device: device of the tensors.
        events: the events after which they are complete.
        tensors: allocations of their own.
    """
    if device.type != "cuda":
        return
    stream = torch.cuda.current_stream(device)
    for event in events:
        stream.wait_event(event)
    for tensor in tensors:
        tensor.record_stream(stream)


class HostMemory:
    """Memory on the CPU that is given out again when nothing refers to the last tensor in it any more.

    glibc returns memory of 32 MiB and more to the system at once, which clears each page again when it is first
    written: 4 % of the time that small videos take to decode on 2 cores.
    The two pieces that came back last are kept, one to be filled while the consumer has another.

    Args:
        shared: whether other processes can be given it; see ``shared_memory``.
    """

    def __init__(self, shared: bool = False) -> None:
        self._new = new_block if shared else own_block
        self._free: deque[MemoryBlock] = deque(maxlen=2)

    def __reduce__(self) -> tuple[type[HostMemory], tuple[()]]:
        return HostMemory, ()

    def allocate(self, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Uninitialised memory."""
        needed = math.prod(size) * dtype.itemsize
        try:
            block: MemoryBlock | None = self._free.pop()
        except IndexError:
            block = None
        if block is None or not needed <= len(block.memory) <= 2 * needed:
            with enough_memory(_described(size, dtype)):
                block = self._new(needed)
        # All tensors in this memory refer to the array, and none to the block.
        memory = block.memory[:needed]
        weakref.finalize(memory, self._free.append, block).atexit = False
        return torch.from_numpy(memory).view(dtype).view(tuple(size))
