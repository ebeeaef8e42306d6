"""Reuse the memory through which pictures pass on their way to the GPU.

Asking PyTorch for new memory each time would release the GIL; ``driver`` explains what that costs.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
import numpy.typing as npt
import torch

# Pieces of each kind that are kept for a stream: one is filled while the other is read.
_PIECES = 2
# GPU memory larger than this many bytes is freed. Keeping it would take too much in total, and compared with the
# transfer of that much data, the cost of asking again is small.
_LARGEST_IDLE = 8 << 20


class PinnedMemory:
    """Page-locked memory, from which a GPU reads while the CPU goes on.

    Attributes:
        array: uint8[size].
        view: view of its bytes.
        pointer: its address.
        sent: event recorded on the stream after the last transfer.
    """

    def __init__(self, size: int) -> None:
        self.array: npt.NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
        self.view = self.array.data
        self.pointer = self.array.ctypes.data
        self.sent = torch.cuda.Event()  # type: ignore[no-untyped-call]


# Keyed by device and stream. A thread usually has its own stream, and so its own memory, which its core has cached.
# Deques are thread-safe.
_pinned: defaultdict[tuple[int, int], deque[PinnedMemory]] = defaultdict(deque)


def take_pinned(size: int, stream: torch.cuda.Stream) -> PinnedMemory:
    """Return memory of at least ``size`` bytes that no transfer uses; return it with ``give_back_pinned``.

    This waits if the stream is behind with the transfers.
    """
    idle = _pinned[stream.device.index, stream.cuda_stream]
    try:
        memory = idle.popleft()
    except IndexError:
        return PinnedMemory(size)
    if not memory.sent.query():  # type: ignore[no-untyped-call]
        if len(idle) < _PIECES - 1:
            idle.appendleft(memory)
            return PinnedMemory(size)
        memory.sent.synchronize()
    return memory if len(memory.array) >= size else PinnedMemory(size)


def give_back_pinned(memory: PinnedMemory, stream: torch.cuda.Stream) -> None:
    """Let memory be used again once the work now on the stream is done."""
    memory.sent.record(stream)
    _pinned[stream.device.index, stream.cuda_stream].append(memory)


class GpuMemory:
    """A piece of GPU memory; see ``take_gpu``.

    Attributes:
        tensor: uint8, at least of the size asked for.
    """

    def __init__(self, tensor: torch.Tensor, idle: deque[torch.Tensor]) -> None:
        self.tensor, self._idle = tensor, idle

    def __del__(self) -> None:
        if self.tensor.numel() <= _LARGEST_IDLE:
            self._idle.append(self.tensor)


_gpu: defaultdict[tuple[int, int], deque[torch.Tensor]] = defaultdict(lambda: deque(maxlen=_PIECES))


def take_gpu(size: int, stream: torch.cuda.Stream) -> GpuMemory:
    """Return GPU memory for a stream. Once it is dropped, later work on that stream uses it again."""
    idle = _gpu[stream.device.index, stream.cuda_stream]
    try:
        tensor = idle.pop()
    except IndexError:
        tensor = None
    if tensor is None or tensor.numel() < size:
        with torch.cuda.stream(stream):
            tensor = torch.empty(size, dtype=torch.uint8, device=stream.device)
    return GpuMemory(tensor, idle)
