"""Memory that pictures pass through on their way to the GPU. It is used again and again.

To ask PyTorch for it anew each time lets go of Python's lock; ``driver`` says what that costs.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
import numpy.typing as npt
import torch

# Of each kind so many pieces are kept for a stream: one is filled while the other is read.
_PIECES = 2
# GPU memory larger than this is given back, bytes: there would be too much in total, and beside the transfer of so much
# the cost of asking again is small.
_LARGEST_IDLE = 8 << 20


class PinnedMemory:
    """Page-locked memory, from which a GPU reads while the CPU goes on.

    Attributes:
        array: uint8[size].
        view: view of its bytes.
        pointer: its address.
        sent: recorded on the stream after the last transfer.
    """

    def __init__(self, size: int) -> None:
        self.array: npt.NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
        self.view = self.array.data
        self.pointer = self.array.ctypes.data
        self.sent = torch.cuda.Event()  # type: ignore[no-untyped-call]


# By device and stream: a thread mostly has a stream of its own, and so its own memory, which its core has cached.
# Deques are atomic.
_pinned: defaultdict[tuple[int, int], deque[PinnedMemory]] = defaultdict(deque)


def take_pinned(size: int, stream: torch.cuda.Stream) -> PinnedMemory:
    """Memory of at least ``size`` bytes that nothing is read from; give it back with ``give_back_pinned``.

    Waits where the stream is behind with the transfers.
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
    """Let memory be used again when what is on the stream now is done."""
    memory.sent.record(stream)
    _pinned[stream.device.index, stream.cuda_stream].append(memory)


class GpuMemory:
    """A piece of GPU memory; see ``take_gpu``.

    Attributes:
        tensor: uint8, of at least the size asked for.
    """

    def __init__(self, tensor: torch.Tensor, idle: deque[torch.Tensor]) -> None:
        self.tensor, self._idle = tensor, idle

    def __del__(self) -> None:
        if self.tensor.numel() <= _LARGEST_IDLE:
            self._idle.append(self.tensor)


_gpu: defaultdict[tuple[int, int], deque[torch.Tensor]] = defaultdict(lambda: deque(maxlen=_PIECES))


def take_gpu(size: int, stream: torch.cuda.Stream) -> GpuMemory:
    """GPU memory in the order of a stream: dropped, it is used again by what comes later on that stream."""
    idle = _gpu[stream.device.index, stream.cuda_stream]
    try:
        tensor = idle.pop()
    except IndexError:
        tensor = None
    if tensor is None or tensor.numel() < size:
        with torch.cuda.stream(stream):
            tensor = torch.empty(size, dtype=torch.uint8, device=stream.device)
    return GpuMemory(tensor, idle)
