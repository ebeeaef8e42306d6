"""decord2, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import decord
import numpy as np
import torch
from footage import FRAMES

from libraries.common import SIDE, finish, random_clip, rate_of_threads


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
