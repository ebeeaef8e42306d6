"""videoloader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from footage import FRAMES
from torch.utils.data import DataLoader

import videoloader as vl
from libraries.common import BATCH, LENGTH, SIDE, SLICE, STRIDE, check_clip, median_milliseconds, random_clip, rate
from videoloader.indexing import VideoIndex, open_source
from videoloader.interop.torch import ClipDataset, stack_clips
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

# So long that the beginning of an epoch, when nothing is decoded ahead yet, does not count.
_CLIPS_A_FILE = 400
_PIXELS: dict[str, Any] = {"transforms": [vl.Resize((SIDE, SIDE)), vl.Normalize()], "dtype": "float16"}


def every_frame(files: list[str], seconds: float, warmup: float) -> dict[str, float]:
    """Frames a second of whole files, by NVDEC alone."""
    mode = vl.EveryWindow(FRAMES)
    with loading(files * 16, mode, device="cuda", decode="nvdec", batch_size=2) as (loader, batches):
        frames = rate(lambda: next(batches).frames.shape[0] * FRAMES, seconds, warmup)
        return {"frames/s": frames, "packets/frame": _cost(loader)}


def random_clips(files: list[str], seconds: float, warmup: float, **arguments: Any) -> dict[str, float]:
    """Clips a second of random clips; the arguments are VideoLoader's."""
    mode = vl.RandomWindow(LENGTH, stride=STRIDE, clips=_CLIPS_A_FILE)
    with loading(files, mode, **{"batch_size": BATCH, **arguments}) as (loader, batches):
        if arguments["device"] == "cpu":  # until the loader's processes have started
            for _ in range(2 * arguments["num_workers"]):
                next(batches)
        clips = rate(lambda: clips_of(next(batches)), seconds, warmup)
        return {"clips/s": clips, "packets/frame": _cost(loader)}


def random_clips_of_processes(files: list[str], seconds: float, warmup: float, processes: int) -> dict[str, float]:
    """Clips a second of random clips that processes of a torch DataLoader decode."""
    mode = vl.RandomWindow(LENGTH, stride=STRIDE, clips=_CLIPS_A_FILE)
    data = ClipDataset(vl.VideoDataset.from_paths(files), mode, **_PIXELS)
    batches = iter(DataLoader(data, BATCH, shuffle=True, num_workers=processes, collate_fn=stack_clips))
    # All processes begin at once: first comes what each had made ahead by then.
    for _ in range(processes):
        next(batches)
    return {"clips/s": rate(lambda: clips_of(next(batches)), seconds, warmup)}


def clips_of_one_video(files: list[str], seconds: float, warmup: float, clips: int) -> dict[str, float]:
    """Clips a second where all clips of a batch are of one video, and how often a batch decodes a packet."""
    mode = vl.RandomWindow(LENGTH, stride=STRIDE, clips=clips * 1000)
    with loading(files, mode, device="cuda", decode="nvdec", batch_size=clips) as (loader, batches):
        numbers = [next(batches).frame_numbers for _ in range(4)]
        decoded = loader.stats().packets
        clips_a_second = rate(lambda: clips_of(next(batches)), seconds, warmup)
    index = vl.Video(files[0], device="cpu").index
    needed = sum(_packets_needed(files[0], index, batch) for batch in numbers)
    alone = sum(_packets_needed(files[0], index, clip) for batch in numbers for clip in batch)
    return {
        "clips/s": clips_a_second,
        "decoded/needed": decoded / needed,
        "clip by clip/needed": alone / needed,
        "needed packets a batch": needed / len(numbers),
    }


def whole_video(files: list[str], seconds: float, warmup: float, stream: bool) -> dict[str, float]:
    """Frames a second of one file at full size, opened and read into one tensor, or frame by frame."""

    def step() -> int:
        video = vl.Video(files[0], device="cuda")
        frames = sum(1 for _ in video.stream()) if stream else len(video[:])
        torch.cuda.synchronize()
        return frames

    return {"frames/s": rate(step, seconds, warmup)}


def stream(files: list[str], seconds: float, warmup: float) -> dict[str, float]:
    """Frames a second of one file at full size, opened and gone through on the CPU."""
    return {"frames/s": rate(lambda: sum(1 for _ in vl.Video(files[0], device="cpu").stream()), seconds, warmup)}


def slices(files: list[str], seconds: float, warmup: float) -> dict[str, float]:
    """Frames a second of one file at full size, opened and read 30 frames at a time, on the CPU."""

    def step() -> int:
        video = vl.Video(files[0], device="cpu")
        return sum(len(video[start : start + SLICE]) for start in range(0, FRAMES, SLICE))

    return {"frames/s": rate(step, seconds, warmup)}


def latency(files: list[str], seconds: float, warmup: float, device: str, reopen: bool) -> dict[str, float]:
    """Milliseconds of one random clip at full size, one after the other."""
    rng = np.random.default_rng(0)
    video = vl.Video(files[0], device=device)

    def step() -> None:
        opened = vl.Video(files[rng.integers(len(files))], device=device) if reopen else video
        if opened.read(random_clip(rng, FRAMES)).frames.is_cuda:
            torch.cuda.synchronize()

    return {"ms": median_milliseconds(step, seconds, warmup)}


def gpu_memory(files: list[str], seconds: float, warmup: float, num_workers: int) -> dict[str, float]:
    """Gigabytes taken from the GPU while random clips are loaded.

    The context and what PyTorch takes for a first tensor are not counted. Batches are those in the making, the one
    that is finished and the one in the caller's hand.
    """
    torch.ones(1, device="cuda").add_(1).cpu()
    free = least = torch.cuda.mem_get_info()[0]
    prefetch = 4
    mode = vl.RandomWindow(LENGTH, stride=STRIDE, clips=_CLIPS_A_FILE)
    arguments = {"device": "cuda", "decode": "nvdec", "num_workers": num_workers}
    with loading(files, mode, batch_size=BATCH, prefetch=prefetch, **arguments) as (_, batches):
        batch = next(batches)

        def step() -> int:
            nonlocal batch, least
            batch = next(batches)
            least = min(least, torch.cuda.mem_get_info()[0])
            return clips_of(batch)

        clips = rate(step, seconds, warmup)
        of_batches = (prefetch + 2) * batch.frames.numel() * batch.frames.element_size()
    return {
        "GB": (free - least - of_batches) / 1e9,
        "GB of batches": of_batches / 1e9,
        "GB held by torch": torch.cuda.max_memory_reserved() / 1e9,
        "clips/s": clips,
    }


@contextmanager
def loading(files: Sequence[str], mode: Any, **arguments: Any) -> Iterator[tuple[vl.VideoLoader, Iterator[Any]]]:
    """A loader and its batches without end."""
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths(files),
        mode,
        **_PIXELS | {"shuffle": True} | arguments,
    )

    def endless() -> Iterator[Any]:
        while True:
            yield from loader

    batches = endless()
    try:
        yield loader, batches
    finally:
        batches.close()


def clips_of(batch: Any) -> int:
    """How many clips a batch has, once they are there."""
    check_clip(batch.frames)
    if batch.frames.is_cuda:
        torch.cuda.current_stream().synchronize()
    return len(batch.frames)


def _cost(loader: vl.VideoLoader) -> float:
    """Packets decoded for each frame wanted."""
    stats = loader.stats()
    return stats.packets / stats.frames


def _packets_needed(path: str, index: VideoIndex, frames: np.ndarray) -> int:
    """Packets that a decoder needs to give these frames, each packet once."""
    source = open_source(path)
    return sum(len(list(read_packets(source, index, run))) for run in plan_frames(index, np.unique(frames)).runs)
