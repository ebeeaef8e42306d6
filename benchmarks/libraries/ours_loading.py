"""videoloader's loaders at work: on several GPUs, over whole videos, and beside a torch DataLoader."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import videoloader as vl
from libraries.common import BATCH, LENGTH, SIDE, STRIDE, check_clip, rate
from libraries.ours import clips_of, loading
from libraries.place import Place, epoch_together, rate_together
from videoloader.interop.torch import ClipRequest, DecodingLoader

_CLIPS_A_FILE = 400
# Rows of the data set that both loaders of a comparison go through.
_ROWS = 3200


def random_clips(
    files: list[str], seconds: float, warmup: float, place: Mapping[str, Any], decode: str
) -> dict[str, float]:
    """Clips a second of this process's part of an epoch of random clips."""
    here = Place(**place)
    mode = vl.RandomWindow(LENGTH, stride=STRIDE, clips=_CLIPS_A_FILE)
    shard = {"shard_id": here.rank, "num_shards": here.ranks}
    with loading(files, mode, batch_size=BATCH, device=here.device, decode=decode, **shard) as (loader, batches):
        clips = rate_together(lambda: clips_of(next(batches)), seconds, warmup, here)
        stats = loader.stats()
    return {"clips/s": clips, "packets/frame": stats.packets / stats.frames, "cores each": here.cores}


def whole_videos(
    files: list[str],
    seconds: float,
    warmup: float,
    place: Mapping[str, Any],
    sequence: int,
    side: int,
    batch: int,
    prefetch: int | None = None,
) -> dict[str, float]:
    """Seconds of an epoch of all frames in sequences, as uint8 on the device.

    Args:
        files: the videos.
        seconds: not used.
        warmup: seconds before the epoch.
        place: of this process.
        sequence: frames in a clip.
        side: of the frames that come out, which are square; 0 leaves them as large as they are.
        batch: clips in a batch of the loader; more than BATCH are given on in batches of BATCH.
        prefetch: see VideoLoader.
    """
    here = Place(**place)
    begin = time.perf_counter()
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths(files),
        vl.EveryWindow(sequence),
        batch_size=batch,
        device=here.device,
        transforms=[vl.Resize((side, side))] if side else [],
        prefetch=prefetch,
        shard_id=here.rank,
        num_shards=here.ranks,
        sharding="contiguous",  # the clips of a video to one process
    )
    setup = time.perf_counter() - begin

    def epoch(least: float = float("inf")) -> int:
        frames, end = 0, time.perf_counter() + least
        for made in loader:
            for part in made.frames.split(BATCH):
                frames += part.shape[0] * part.shape[1]
            if made.frames.is_cuda:
                torch.cuda.current_stream().synchronize()
            if time.perf_counter() > end:
                break
        return frames

    figures = epoch_together(epoch, epoch, warmup, here)
    stats = loader.stats()
    return {**figures, "setup s": setup, "packets/frame": stats.packets / stats.frames}


class _Requests(Dataset[ClipRequest]):
    def __init__(self, paths: Sequence[str], mode: Any) -> None:
        self._paths, self._mode = paths, mode

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> ClipRequest:
        return ClipRequest(self._paths[row], self._mode)


def same_clips(
    files: list[str], seconds: float, warmup: float, place: Mapping[str, Any], loader: str, workers: int
) -> dict[str, float]:
    """Clips a second of a loader; the clips are the same, frame by frame, in the same order.

    Args:
        files: the videos.
        seconds, warmup: of counting and before that.
        place: of this process.
        loader: ``"VideoLoader"``, or ``"DecodingLoader"`` over a torch DataLoader.
        workers: of that.
    """
    here = Place(**place)
    rows = [files[number] for number in np.random.default_rng(0).integers(0, len(files), _ROWS)]
    mode = vl.RandomWindow(LENGTH, stride=STRIDE)
    if loader == "VideoLoader":
        with loading(rows, mode, batch_size=BATCH, device=here.device, shuffle=False) as (_, batches):
            return {"clips/s": rate(lambda: clips_of(next(batches)), seconds, warmup)}
    torch_loader = DataLoader(_Requests(rows, mode), BATCH, num_workers=workers, persistent_workers=workers > 0)
    decoding = DecodingLoader(
        torch_loader,
        device=here.device,
        transforms=[vl.Resize((SIDE, SIDE)), vl.Normalize()],
        dtype="float16",
    )

    def endless() -> Iterator[torch.Tensor]:
        while True:
            yield from decoding

    batches = endless()

    def step() -> int:
        frames = next(batches)
        check_clip(frames)
        if frames.is_cuda:
            torch.cuda.current_stream().synchronize()
        return len(frames)

    try:
        return {"clips/s": rate(step, seconds, warmup)}
    finally:
        batches.close()
