"""torchcodec, on CUDA and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from footage import FRAMES, LONG_FRAMES
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from libraries.common import SIDE, SLICE, finish, median_milliseconds, random_clip, rate, rate_of_threads


def random_clips(
    files: list[str], seconds: float, warmup: float, device: str, threads: int, own_resize: bool = False
) -> dict[str, float]:
    """Clips a second; every clip opens its file, since data sets have more files than can be kept open.

    Only on the CPU can the decoder resize.
    """
    transforms = [Resize((SIDE, SIDE))] if own_resize else None
    if device == "cpu":
        torch.set_num_threads(1)  # the threads here are enough

    def make(number: int) -> Callable[[], int]:
        rng = np.random.default_rng(number)
        stream = torch.cuda.Stream() if device == "cuda" else None

        def step() -> int:
            with torch.cuda.stream(stream) if stream else nullcontext():
                decoder = VideoDecoder(
                    files[rng.integers(len(files))],
                    device=device,
                    seek_mode="approximate",
                    num_ffmpeg_threads=1,
                    transforms=transforms,
                )
                finish(decoder.get_frames_at(random_clip(rng, FRAMES)).data)
                if stream:
                    stream.synchronize()
            return 1

        return step

    return {"clips/s": rate_of_threads(make, threads, seconds, warmup)}


def clips_of_one_video(
    files: list[str], seconds: float, warmup: float, clips: int, threads: int | None = None
) -> dict[str, float]:
    """Clips a second of one long video: threads that keep it open, or without threads all clips in one call."""

    def make(number: int) -> Callable[[], int]:
        rng, stream = np.random.default_rng(number), torch.cuda.Stream()
        decoder = VideoDecoder(files[0], device="cuda", seek_mode="approximate")
        at_once = 1 if threads else clips

        def step() -> int:
            with torch.cuda.stream(stream):
                numbers = [frame for _ in range(at_once) for frame in random_clip(rng, LONG_FRAMES)]
                for clip in decoder.get_frames_at(numbers).data.chunk(at_once):
                    finish(clip)
                stream.synchronize()
            return at_once

        return step

    return {"clips/s": rate_of_threads(make, threads or 1, seconds, warmup)}


def whole_video(files: list[str], seconds: float, warmup: float, at_once: int) -> dict[str, float]:
    """Frames a second of one file, opened and read from its start to its end, at full size."""

    def step() -> int:
        decoder = VideoDecoder(files[0], device="cuda", seek_mode="approximate")
        for start in range(0, LONG_FRAMES, at_once):
            frames = decoder.get_frames_in_range(start, min(start + at_once, LONG_FRAMES)).data
        torch.cuda.synchronize()
        assert frames.dtype == torch.uint8
        assert frames.shape[1:] == (3, 1080, 1920)
        return LONG_FRAMES

    return {"frames/s": rate(step, seconds, warmup)}


def stream(files: list[str], seconds: float, warmup: float, threads: int) -> dict[str, float]:
    """Frames a second of one file at full size, opened and gone through on the CPU."""

    def step() -> int:
        return sum(1 for _ in VideoDecoder(files[0], num_ffmpeg_threads=threads, seek_mode="approximate"))

    return {"frames/s": rate(step, seconds, warmup)}


def slices(files: list[str], seconds: float, warmup: float, threads: int) -> dict[str, float]:
    """Frames a second of one file at full size, opened and read 30 frames at a time, on the CPU."""

    def step() -> int:
        decoder = VideoDecoder(files[0], num_ffmpeg_threads=threads, seek_mode="approximate")
        return sum(len(decoder[start : start + SLICE]) for start in range(0, FRAMES, SLICE))

    return {"frames/s": rate(step, seconds, warmup)}


def latency(
    files: list[str], seconds: float, warmup: float, device: str, reopen: bool, threads: int = 1
) -> dict[str, float]:
    """Milliseconds of one random clip at full size, one after the other."""
    rng = np.random.default_rng(0)

    def opened(path: str) -> VideoDecoder:
        return VideoDecoder(path, device=device, seek_mode="approximate", num_ffmpeg_threads=threads)

    decoder = opened(files[0])

    def step() -> None:
        one = opened(files[rng.integers(len(files))]) if reopen else decoder
        if one.get_frames_at(random_clip(rng, FRAMES)).data.is_cuda:
            torch.cuda.synchronize()

    return {"ms": median_milliseconds(step, seconds, warmup)}
