"""Memory of batches on the CPU is reused when the last tensor in it is freed, and not before."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import pickle
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import videoloader as vl
from videoloader.batching.rows import FrameMemory
from videoloader.runtime import device
from videoloader.runtime.device import HostMemory, allocate, trim_heaps

SIZE = (2, 3, 8, 8)


def test_memory_is_given_out_again_when_nothing_refers_to_it() -> None:
    memory = HostMemory()
    frames = memory.allocate(SIZE, torch.float16)
    place = frames.data_ptr()
    del frames
    assert memory.allocate(SIZE, torch.float16).data_ptr() == place


@pytest.mark.parametrize(
    "keep",
    [
        lambda frames: frames[1, 0],
        lambda frames: frames.numpy()[0],
        lambda frames: frames.detach().view(torch.uint8),
        lambda frames: torch.utils.dlpack.to_dlpack(frames),
        lambda frames: memoryview(frames.numpy()),
        lambda frames: frames.untyped_storage(),
    ],
    ids=["view", "array", "other type", "DLPack", "buffer", "storage"],
)
def test_whatever_shows_the_memory_keeps_it(keep: Callable[[torch.Tensor], object]) -> None:
    memory = HostMemory()
    frames = memory.allocate(SIZE, torch.float16).fill_(7)
    place, kept = frames.data_ptr(), keep(frames)
    del frames
    gc.collect()
    other = memory.allocate(SIZE, torch.float16).fill_(1)
    assert other.data_ptr() != place
    del kept
    assert memory.allocate(SIZE, torch.float16).data_ptr() == place


def test_smaller_memory_is_taken_from_a_larger_piece_but_not_from_a_much_larger_one() -> None:
    memory = HostMemory()
    place = memory.allocate((100,), torch.uint8).data_ptr()
    frames = memory.allocate((25, 3), torch.uint8)
    assert frames.data_ptr() == place
    assert (frames.shape, frames.dtype, frames.is_contiguous()) == ((25, 3), torch.uint8, True)
    del frames
    kept = memory.allocate((20,), torch.uint8)
    assert kept.data_ptr() != place
    assert kept.untyped_storage().nbytes() == 20


def test_no_more_than_two_pieces_wait() -> None:
    memory = HostMemory()
    pieces = [memory.allocate((1000,), torch.uint8) for _ in range(5)]
    del pieces
    assert len(memory._free) == 2


def test_no_python_code_that_a_signal_could_interrupt_runs_when_a_piece_is_let_go() -> None:
    memory, called = HostMemory(), []
    piece = memory.allocate((1000,), torch.uint8)
    place = piece.data_ptr()
    sys.setprofile(lambda frame, event, argument: called.append(event))
    del piece
    sys.setprofile(None)
    assert "call" not in called
    assert memory.allocate((1000,), torch.uint8).data_ptr() == place


def test_a_pickle_takes_no_memory_along() -> None:
    memory = HostMemory()
    memory.allocate((1_000_000,), torch.uint8)
    assert len(pickle.dumps(memory)) < 100
    assert pickle.loads(pickle.dumps(memory)).allocate((3,), torch.uint8).shape == (3,)


def test_threads_never_share_a_piece() -> None:
    memory, wrong = HostMemory(), []

    def work(number: int) -> None:
        for _ in range(2000):
            frames = memory.allocate((257,), torch.uint8).fill_(number)
            if not (frames == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("transforms", [(), (vl.RandomHorizontalFlip(), vl.ColorJitter(0.3))], ids=["plain", "colors"])
def test_batches_that_are_kept_stay_as_they_are(
    sample: Callable[[str], Path], transforms: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    places, plain = [], FrameMemory.allocate

    def allocate(*arguments: Any) -> torch.Tensor:
        frames = plain(*arguments)
        places.append(frames.data_ptr())
        return frames

    monkeypatch.setattr(FrameMemory, "allocate", allocate)
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    loader = vl.VideoLoader(
        data, vl.EveryWindow(6), batch_size=2, transforms=transforms, dtype="float32", device="cpu", prefetch=2
    )
    kept, copies = [], []
    for epoch in range(4):
        for number, batch in enumerate(loader):
            if (epoch, number) in ((0, 1), (0, 3)):
                kept.append(batch.frames)
                copies.append(batch.frames.clone())
    assert all(map(torch.equal, kept, copies))
    assert len({frames.data_ptr() for frames in kept}) == 2
    assert len(set(places)) < len(places) / 2


def test_much_memory_is_like_little() -> None:
    for side in (0, 8, 4096):
        tensor = allocate((3, side, side), torch.float32, torch.device("cpu"))
        assert (tensor.shape, tensor.dtype, tensor.is_contiguous()) == ((3, side, side), torch.float32, True)
        assert torch.equal(tensor.fill_(side).clone(), torch.full((3, side, side), float(side)))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot trim their heaps")
def test_free_memory_in_the_heaps_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    size, count = 64_000, 2000
    pieces = [libc.malloc(size) for _ in range(count)]
    for piece in pieces:
        ctypes.memset(piece, 1, size)
    # The last piece keeps the end of the heap in use, so that freeing alone gives nothing back.
    for piece in pieces[:-1]:
        libc.free(piece)
    monkeypatch.setattr(device, "_last_trim", -math.inf)
    before = resident()
    trim_heaps()
    assert before - resident() > size * count // 2
    libc.free(pieces[-1])
