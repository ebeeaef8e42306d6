"""decord2, on the CPU, by itself and in the worker processes of a torch DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import decord
import numpy as np
import torch
from footage import FRAMES
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from libraries.common import BATCH, SIDE, SLICE, finish, random_clip, rate, rate_of_threads
from libraries.place import Place, epoch_together

_BATCHES_AHEAD = 2


def random_clips(files: list[str], seconds: float, warmup: float, threads: int) -> dict[str, float]:
    """Clips a second; every clip opens its file, and the reader resizes."""
    torch.set_num_threads(1)

    def make(number: int) -> Callable[[], int]:
        rng = np.random.default_rng(number)

        def step() -> int:
            path = files[rng.integers(len(files))]
            reader = decord.VideoReader(path, ctx=decord.cpu(0), width=SIDE, height=SIDE, num_threads=1)
            frames = reader.get_batch(random_clip(rng, FRAMES)).asnumpy()
            finish(torch.from_numpy(frames).permute(0, 3, 1, 2))
            return 1

        return step

    return {"clips/s": rate_of_threads(make, threads, seconds, warmup)}


def slices(files: list[str], seconds: float, warmup: float, threads: int) -> dict[str, float]:
    """Frames a second of one file at full size, opened and read 30 frames at a time."""

    def step() -> int:
        reader = decord.VideoReader(files[0], ctx=decord.cpu(0), num_threads=threads)
        return sum(len(reader.get_batch(range(at, at + SLICE)).asnumpy()) for at in range(0, FRAMES, SLICE))

    return {"frames/s": rate(step, seconds, warmup)}


def whole_videos(
    files: list[str],
    seconds: float,
    warmup: float,
    place: Mapping[str, Any],
    sequence: int,
    side: int,
    order: str,
) -> dict[str, float]:
    """Seconds of an epoch of all frames in sequences, as uint8 on the device, by a worker process for each core.

    Args:
        files: the videos, of FRAMES frames each.
        seconds: not used.
        warmup: not used: each worker makes a batch before the epoch.
        place: of this process, which is alone.
        sequence: frames in a clip.
        side: of the frames that come out, which are square; 0 leaves them as large as they are.
        order: ``"clips"``: a map-style data set, batches dealt to the workers in turn; ``"videos"``: an iterable one,
            whose workers go through videos from their first to their last frame.
    """
    here = Place(**place)
    height, width, _ = _open(files[0], side)[0].shape
    # Batches travel in shared memory, which may be small.
    memory = os.statvfs("/dev/shm")
    batch = BATCH * sequence * height * width * 3
    workers = min(here.cores, memory.f_bavail * memory.f_frsize // ((_BATCHES_AHEAD + 1) * batch))
    if not workers:
        raise MemoryError(f"/dev/shm has no room for {_BATCHES_AHEAD + 1} batches of {batch >> 20} MiB")
    data = (_Clips if order == "clips" else _Videos)(files, sequence, side)
    loader: DataLoader[Any] = DataLoader(
        data,
        BATCH if order == "clips" else None,
        num_workers=workers,
        prefetch_factor=_BATCHES_AHEAD,
        persistent_workers=True,
        pin_memory=here.kind == "cuda",
    )

    def frames_of(frames: torch.Tensor) -> int:
        on_device = frames.to(here.device, non_blocking=True)
        if on_device.is_cuda:
            torch.cuda.current_stream().synchronize()
        return frames.shape[0] * frames.shape[1]

    def first(_: float) -> None:
        for number, frames in enumerate(loader):
            frames_of(frames)
            if number == workers:
                break

    figures = epoch_together(first, lambda: sum(map(frames_of, loader)), warmup, here)
    return {**figures, "workers": workers}


def _open(path: str, side: int) -> decord.VideoReader:
    return decord.VideoReader(path, ctx=decord.cpu(0), width=side or -1, height=side or -1, num_threads=1)


class _Clips(Dataset[torch.Tensor]):
    """uint8[sequence, H, W, 3] each; a worker keeps the video that it read last open."""

    def __init__(self, files: list[str], sequence: int, side: int) -> None:
        self._files, self._sequence, self._side = files, sequence, side
        self._each, self._opened = FRAMES // sequence, ("", None)

    def __len__(self) -> int:
        return len(self._files) * self._each

    def __getitem__(self, number: int) -> torch.Tensor:
        path = self._files[number // self._each]
        if self._opened[0] != path:
            self._opened = (path, _open(path, self._side))
        start = number % self._each * self._sequence
        frames = self._opened[1].get_batch(range(start, start + self._sequence))
        return torch.from_numpy(frames.asnumpy())


class _Videos(IterableDataset[torch.Tensor]):
    """uint8[up to BATCH, sequence, H, W, 3] each, of one video."""

    def __init__(self, files: list[str], sequence: int, side: int) -> None:
        self._files, self._sequence, self._side = files, sequence, side

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker, at_once = get_worker_info(), BATCH * self._sequence
        for path in self._files[worker.id :: worker.num_workers]:
            reader = _open(path, self._side)
            for start in range(0, FRAMES - self._sequence + 1, at_once):
                stop = min(start + at_once, FRAMES // self._sequence * self._sequence)
                frames = torch.from_numpy(reader.get_batch(range(start, stop)).asnumpy())
                yield frames.unflatten(0, (-1, self._sequence))
