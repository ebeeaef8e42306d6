"""What all libraries are given and measured by."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

LENGTH, STRIDE, SIDE = 16, 4, 224
SPAN = (LENGTH - 1) * STRIDE + 1
BATCH = 8
# Frames that are read at once, where a video is read in slices.
SLICE = 30
# ImageNet's, times 255.
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def random_clip(rng: np.random.Generator, frames: int) -> list[int]:
    """Frame numbers of a clip somewhere in a video."""
    start = int(rng.integers(frames - SPAN + 1))
    return [start + STRIDE * number for number in range(LENGTH)]


def finish(frames: torch.Tensor) -> torch.Tensor:
    """The way from [T, 3, H, W] uint8 to [T, 3, 224, 224] float16, normalised, for a library that has none."""
    if frames.shape[-2:] != (SIDE, SIDE):
        # On the GPU antialiasing needs floating point; on the CPU uint8 is several times as fast.
        pixels = frames.half() if frames.is_cuda else frames
        frames = torch.nn.functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear", antialias=True)
    mean, std = _mean_std(frames.device)
    result = ((frames - mean) / std).half()
    check_clip(result)
    return result


@cache
def _mean_std(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    mean, std = (torch.tensor(each, device=device)[:, None, None] for each in (MEAN, STD))
    return mean, std


def check_clip(frames: torch.Tensor) -> None:
    """Nobody is to win with another output."""
    if frames.shape[-4:] != (LENGTH, 3, SIDE, SIDE) or frames.dtype != torch.float16:
        raise ValueError(f"a clip came out as {tuple(frames.shape)} {frames.dtype}")


def rate(step: Callable[[], int], seconds: float, warmup: float) -> float:
    """Things a second that a step does, counted after a warm-up from the end of one step to the end of another."""
    end = time.perf_counter() + warmup
    while True:
        step()
        if (start := time.perf_counter()) >= end:
            break
    count = 0
    while (now := time.perf_counter()) < start + seconds:
        count += step()
    return count / (now - start)


def rate_of_threads(make: Callable[[int], Callable[[], int]], threads: int, seconds: float, warmup: float) -> float:
    """Things a second that steps in several threads do together.

    Args:
        make: called in each thread with its number; gives the step that the thread repeats.
        threads: how many.
        seconds: of counting.
        warmup: seconds before that.
    """
    counts, stop = [0] * threads, threading.Event()
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            step = make(number)
            while not stop.is_set():
                counts[number] += step()
        except Exception as error:
            errors.append(error)
            stop.set()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    stop.wait(warmup)
    before, start = sum(counts), time.perf_counter()
    stop.wait(seconds)
    result = (sum(counts) - before) / (time.perf_counter() - start)
    stop.set()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    if not result:
        raise TimeoutError(f"nothing was finished in {seconds:g} s after a warm-up of {warmup:g} s")
    return result


def median_milliseconds(step: Callable[[], Any], seconds: float, warmup: float, least: int = 15) -> float:
    """How long a step takes, over as many as fit in the time and at least some."""
    end = time.perf_counter() + warmup
    while True:
        step()
        if time.perf_counter() >= end:
            break
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1000
