"""SPDL, on the CPU, in threads of one process."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import spdl.io
import torch
from footage import FRAMES, RATE

from libraries.common import SIDE, SLICE, STRIDE, finish, random_clip, rate, rate_of_threads

_RGB = "format=pix_fmts=rgb24"
_SCALE = f"scale={SIDE}:{SIDE}:flags=bilinear,{_RGB}"


def random_clips(files: list[str], seconds: float, warmup: float, threads: int, by: str) -> dict[str, float]:
    """Clips a second; every clip opens its file, and FFmpeg's filters resize.

    Args:
        files: the videos.
        seconds: of counting.
        warmup: seconds before that.
        threads: how many.
        by: how the frames are chosen: ``"time"``, by FFmpeg's filters, or ``"number"``, by SPDL.
    """
    torch.set_num_threads(1)
    clip = {"time": _by_time, "number": _by_number}[by]

    def make(number: int) -> Callable[[], int]:
        rng = np.random.default_rng(number)

        def step() -> int:
            finish(clip(files[rng.integers(len(files))], random_clip(rng, FRAMES)))
            return 1

        return step

    return {"clips/s": rate_of_threads(make, threads, seconds, warmup)}


def slices(files: list[str], seconds: float, warmup: float, threads: int, at_once: bool) -> dict[str, float]:
    """Frames a second of one file at full size, opened and converted 30 frames at a time.

    Args:
        files: the video.
        seconds: of counting.
        warmup: seconds before that.
        threads: of the decoder.
        at_once: whether the file is decoded in one piece. Otherwise each slice is decoded from the keyframe before it.
    """
    config = spdl.io.decode_config(decoder_options={"threads": str(threads)})

    def step() -> int:
        if at_once:
            whole = spdl.io.decode_packets(spdl.io.demux_video(files[0]), _RGB, config)
            return sum(len(_tensor(whole[start : start + SLICE])) for start in range(0, FRAMES, SLICE))
        starts = [(start - 0.5) / RATE for start in range(0, FRAMES + 1, SLICE)]
        parts = (spdl.io.demux_video(files[0], timestamp=window) for window in pairwise(starts))
        return sum(len(_tensor(spdl.io.decode_packets(part, _RGB, config))) for part in parts)

    return {"frames/s": rate(step, seconds, warmup)}


def _by_time(path: str, numbers: list[int]) -> torch.Tensor:
    """Decode from the keyframe before the clip to its end.

    SPDL cuts frames outside of ``timestamp`` after the filters, and ``select`` counts from the keyframe. So a filter
    cuts the frames before the clip first.
    """
    window = ((numbers[0] - 0.5) / RATE, (numbers[-1] + 0.5) / RATE)
    packets = spdl.io.demux_video(path, timestamp=window)
    chosen = f"trim=start={window[0]:f}:end={window[1]:f},select='not(mod(n\\,{STRIDE}))'"
    frames = spdl.io.decode_packets(packets, filter_desc=f"{chosen},{_SCALE}")
    return _tensor(frames)


def _by_number(path: str, numbers: list[int]) -> torch.Tensor:
    return _tensor(spdl.io.sample_decode_video(spdl.io.demux_video(path), numbers, filter_desc=_SCALE))


def _tensor(frames: object) -> torch.Tensor:
    return spdl.io.to_torch(spdl.io.convert_frames(frames)).permute(0, 3, 1, 2)
