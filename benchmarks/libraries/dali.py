"""DALI's operators for video, and its RandAugment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from footage import FRAMES
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.auto_aug.rand_augment import rand_augment as auto_augment

from libraries.augmenting import CLIPS, MAGNITUDE, OPERATIONS, clips, milliseconds_a_batch
from libraries.common import BATCH, LENGTH, MEAN, SIDE, SPAN, STD, STRIDE, rate
from libraries.place import Place, epoch_together

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


def rand_augment(
    files: list[str], seconds: float, warmup: float, dynamic: bool, depth: int, interpolation: str
) -> dict[str, float]:
    """Milliseconds of a batch of clips that lie on the GPU through RandAugment and Normalize."""
    frames = clips("THWC")

    @pipeline_def(
        batch_size=CLIPS,
        num_threads=8,
        device_id=0,
        prefetch_queue_depth=depth,
        enable_conditionals=True,
        exec_dynamic=dynamic,
        seed=0,
    )
    def pipeline() -> Any:
        given = fn.external_source(
            source=lambda: frames, device="gpu", batch=True, layout="FHWC", dtype=types.UINT8, no_copy=True
        )
        augmented = auto_augment(
            given,
            n=OPERATIONS,
            m=MAGNITUDE,
            shape=(SIDE, SIDE),
            interp_type=types.INTERP_LINEAR if interpolation == "bilinear" else types.INTERP_NN,
        )
        return fn.crop_mirror_normalize(
            augmented, dtype=types.FLOAT, output_layout="FCHW", mean=list(MEAN), std=list(STD)
        )

    running = pipeline()
    running.build()

    def step() -> None:
        (batch,) = running.run()
        if len(batch) != CLIPS or tuple(batch.shape()[0]) != (LENGTH, 3, SIDE, SIDE):
            raise ValueError(f"a batch came out as {batch.shape()}")

    return milliseconds_a_batch(step, seconds, warmup)


def whole_videos(
    files: list[str],
    seconds: float,
    warmup: float,
    place: Mapping[str, Any],
    sequence: int,
    side: int,
) -> dict[str, float]:
    """Seconds of an epoch of all frames in sequences, as uint8 on the GPU, by ``readers.video``.

    Args:
        files: the videos, of FRAMES frames each.
        seconds: not used.
        warmup: seconds before the epoch.
        place: of this process.
        sequence: frames in a clip.
        side: of the frames that come out, which are square; 0 leaves them as large as they are.
    """
    here = Place(**place)
    begin = time.perf_counter()

    @pipeline_def(batch_size=BATCH, num_threads=here.cores, device_id=here.device.index, prefetch_queue_depth=2)
    def pipeline() -> Any:
        frames = fn.readers.video(
            device="gpu",
            filenames=files,
            sequence_length=sequence,
            step=sequence,
            shard_id=here.rank,
            num_shards=here.ranks,
        )
        return fn.resize(frames, size=[side, side]) if side else frames

    running = pipeline()
    running.build()
    setup = time.perf_counter() - begin
    batches = -(-len(files) * (FRAMES // sequence) // (here.ranks * BATCH))

    def first(least: float) -> None:
        end = time.perf_counter() + least
        step()
        while time.perf_counter() < end:
            step()

    def step() -> int:
        (frames,) = running.run()
        shape = tuple(frames.shape()[0])
        if shape[0] != sequence or shape[3] != 3 or (side and shape[1:3] != (side, side)):
            raise ValueError(f"a clip came out as {shape}")
        torch.cuda.synchronize()
        return len(frames) * sequence

    figures = epoch_together(first, lambda: sum(step() for _ in range(batches)), warmup, here)
    return {**figures, "setup s": setup}


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
