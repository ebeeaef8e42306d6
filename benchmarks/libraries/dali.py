"""DALI's operators for video."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from footage import FRAMES
from nvidia.dali import fn, pipeline_def, types

from libraries.common import BATCH, LENGTH, MEAN, SIDE, SPAN, STD, STRIDE, rate

_CLIP = {"sequence_length": LENGTH, "stride": STRIDE}
# Windows start at every eighth frame, in random order over all files.
_SHUFFLED = {**_CLIP, "device": "gpu", "step": 8, "random_shuffle": True, "initial_fill": 8, "seed": 1}


def random_clips(files: list[str], seconds: float, warmup: float, operator: str) -> dict[str, float]:
    """Clips a second of a pipeline with one of the operators."""

    @pipeline_def(batch_size=BATCH, num_threads=14, device_id=0, prefetch_queue_depth=2)
    def pipeline() -> Any:
        frames = _OPERATORS[operator](files)
        return fn.crop_mirror_normalize(
            frames, dtype=types.FLOAT16, output_layout="FCHW", mean=list(MEAN), std=list(STD)
        )

    running = pipeline()
    running.build()
    torch.cuda.synchronize()

    def step() -> int:
        (frames,) = running.run()
        if tuple(frames.shape()[0]) != (LENGTH, 3, SIDE, SIDE):
            raise ValueError(f"a clip came out as {frames.shape()[0]}")
        torch.cuda.synchronize()
        return BATCH

    for _ in range(3):  # what is made ahead
        step()
    return {"clips/s": rate(step, seconds, warmup)}


def _random_starts(files: list[str]) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)

    def choose(_: Any) -> tuple[np.ndarray, np.int32]:
        path = files[rng.integers(len(files))]
        return np.frombuffer(path.encode(), np.uint8), np.int32(rng.integers(FRAMES - SPAN + 1))

    path, start = fn.external_source(source=choose, num_outputs=2, batch=False, dtype=[types.UINT8, types.INT32])
    return fn.io.file.read(path), start


def _decoder(decode: Callable[..., Any], **arguments: Any) -> Callable[[list[str]], Any]:
    def operator(files: list[str]) -> Any:
        data, start = _random_starts(files)
        frames = decode(data, device="mixed", start_frame=start, **_CLIP, **arguments)
        return fn.resize(frames, size=[SIDE, SIDE])

    return operator


_OPERATORS: dict[str, Callable[[list[str]], Any]] = {
    "decoders.video": _decoder(fn.decoders.video, build_index=False),
    "decoders.video with index": _decoder(fn.decoders.video, build_index=True),
    "readers.video_resize": lambda files: fn.readers.video_resize(
        filenames=files, resize_x=SIDE, resize_y=SIDE, **_SHUFFLED
    ),
    "experimental.readers.video": lambda files: fn.resize(
        fn.experimental.readers.video(filenames=files, **_SHUFFLED), size=[SIDE, SIDE]
    ),
}
