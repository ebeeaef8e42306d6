"""Memory that several processes on this machine can write to."""

from __future__ import annotations

import mmap
import os
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.errors import ConfigurationError

_numbers = count()


@dataclass(frozen=True, eq=False)
class MemoryBlock:
    """A piece of memory.

    Attributes:
        memory: uint8, all of it.
    """

    memory: npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class SharedBlock(MemoryBlock):
    """A piece of memory with a file descriptor, which can be sent to another process.

    Attributes:
        descriptor: the memory's file descriptor, closed when nothing refers to ``memory`` any more.
        start: the address of its first byte.
        number: number of the block, never used again in this process.
    """

    descriptor: int
    start: int
    number: int = field(default_factory=lambda: next(_numbers))


class Place(NamedTuple):
    """The position of a tensor in a block, for a process that has mapped the block.

    Attributes:
        dtype: the tensor's type.
        offset: the position of its first element, in elements.
        size, stride: the tensor's.
    """

    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def tensor(self, memory: npt.NDArray[np.uint8]) -> torch.Tensor:
        """The tensor at this place of a block."""
        return torch.from_numpy(memory).view(self.dtype).as_strided(self.size, self.stride, self.offset)


@cache
def can_share() -> bool:
    """Whether this system has anonymous memory that processes can share, as Linux does."""
    try:
        os.close(os.memfd_create("videoloader"))
    except (AttributeError, OSError):
        return False
    return True


def shared_number(value: int) -> torch.Tensor:
    """int64[]: a number that the worker processes of a torch DataLoader share.

    Raises:
        ConfigurationError: the system has no shared memory left.
    """
    number = torch.full((), value, dtype=torch.int64, device="cpu")
    try:
        number.share_memory_()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        advice = "free some of /dev/shm, or make it larger (docker run --shm-size)"
        raise ConfigurationError(f"there is no shared memory for worker processes ({error}): {advice}") from error
    return number


def own_block(size: int) -> MemoryBlock:
    """A block of so many bytes that cannot be shared."""
    return MemoryBlock(new_memory(size).numpy())


def new_memory(size: int) -> torch.Tensor:
    """uint8[size], uninitialised.

    Large sizes use huge pages where the system has them: faulting in 4 KiB pages one at a time takes longer than
    converting the frames that are written there.
    """
    if size < _LEAST_HUGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(size, dtype=torch.uint8, device="cpu")
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


def new_block(size: int) -> MemoryBlock:
    """A block of at least so many bytes: a shared one, whose tensors ``block_of`` finds, unless too many exist."""
    if len(_blocks) < _MOST_BLOCKS:
        with suppress(OSError):  # the process may have no more descriptors
            return new_shared_block(size)
    return own_block(size)


def new_shared_block(size: int) -> SharedBlock:
    """A shared block of at least so many bytes."""
    descriptor = os.memfd_create("videoloader")
    try:
        os.ftruncate(descriptor, -(-max(size, 1) // _LARGEST_ITEM) * _LARGEST_ITEM)
        memory = map_block(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    weakref.finalize(memory, os.close, descriptor).atexit = False
    block = SharedBlock(memory, descriptor, memory.ctypes.data)
    _blocks[block.start] = block
    return block


def map_block(descriptor: int) -> npt.NDArray[np.uint8]:
    """uint8: the memory behind a descriptor, which may be closed afterwards."""
    return np.frombuffer(mmap.mmap(descriptor, os.fstat(descriptor).st_size), np.uint8)


def numbers_in_use() -> set[int]:
    """The numbers of the blocks that exist."""
    return {block.number for block in _existing()}


def block_of(tensor: torch.Tensor) -> tuple[SharedBlock, Place] | None:
    """The block that a tensor lies in, and its place there; None for memory that is not shared."""
    address = tensor.data_ptr()
    for block in _existing():
        if block.start <= address < block.start + len(block.memory):
            offset = (address - block.start) // tensor.element_size()
            return block, Place(tensor.dtype, offset, tuple(tensor.shape), tensor.stride())
    return None


def _existing() -> list[SharedBlock]:
    # Iterating over ``values`` would break when another thread makes a block.
    return [block for reference in _blocks.valuerefs() if (block := reference()) is not None]


# Bytes. From this size on glibc also takes memory from the system each time.
_LEAST_HUGE = 32 << 20
# Bytes. The memory can be seen as a tensor of any type.
_LARGEST_ITEM = 16
# Each block takes a descriptor, of which a process may have only a few hundred.
_MOST_BLOCKS = 128
# The blocks that exist, by address.
_blocks: weakref.WeakValueDictionary[int, SharedBlock] = weakref.WeakValueDictionary()
