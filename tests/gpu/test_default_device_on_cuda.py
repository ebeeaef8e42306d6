"""Neither a GPU as PyTorch's default device nor autocast changes anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def batches(path: Path, device: str, **settings: Any) -> list[Any]:
    data = vl.VideoDataset([vl.VideoEntry(path, label) for label in range(4)])
    transforms = [vl.RandomResizedCrop(64), vl.Rotate(9, fill=(1, 2, 3)), vl.Normalize(), vl.MixUp(0.5, 5)]
    loader = vl.VideoLoader(
        data, vl.RandomWindow(4), batch_size=2, device=device, transforms=transforms, shuffle=True, seed=5, **settings
    )
    return [[batch.frames, batch.labels] for batch in loader]


FILTERS = [vl.GaussianBlur(5, (1, 2)), vl.Laplacian(3), vl.Sharpness((0.3, 0.9)), vl.JpegCompression((20, 50))]


def filtered(path: Path, device: str) -> list[torch.Tensor]:
    data, transforms = vl.VideoDataset.from_paths([path]), [vl.CenterCrop(32), *FILTERS, vl.Normalize()]
    loader = vl.VideoLoader(
        data, vl.EveryWindow(4), batch_size=2, device=device, transforms=transforms, num_workers=0, seed=5
    )
    return [batch.frames for batch in loader]


def composed(path: Path, device: str) -> list[Any]:
    compose = vl.Compose([vl.Resize((40, 48)), vl.Rotate(9), *FILTERS])
    clip = vl.Video(path, device=device).read(range(3)).frames
    boxes = torch.tensor([[9.0, 9, 40, 50]], device=device)
    return [
        compose(clip, seed=3),
        compose(clip.float() / 255, seed=3),
        compose(clip, apply_to={"mask": clip[:, 0], "boxes": boxes}, seed=3),
    ]


def brightened(path: Path, device: str) -> list[torch.Tensor]:
    def brighter(frames: Any, rng: np.random.Generator) -> Any:
        return frames.clip(9, 200)

    data, transforms = vl.VideoDataset.from_paths([path]), [vl.CenterCrop(32), vl.PythonFunction(brighter)]
    loader = vl.VideoLoader(data, vl.EveryWindow(4), batch_size=2, device=device, transforms=transforms)
    return [batch.frames for batch in loader]


DOORS: dict[str, Callable[[Path, str], Any]] = {
    "a slice": lambda path, device: vl.Video(path, device=device)[2:9],
    "a clip": lambda path, device: vl.Video(path, device=device).read([0, 4, 9]).frames,
    "a stream": lambda path, device: list(vl.Video(path, device=device).stream(slice(2, 12))),
    "batches of threads": batches,
    "batches without threads": lambda path, device: batches(path, device, num_workers=0),
    "batches of the CPU's engine": lambda path, device: batches(path, device, decode="cpu"),
    "a function on the CPU": brightened,
    "filtered batches": filtered,
    "Compose": composed,
}
DEFAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "default device": partial(torch.device, "cuda"),
    "float16": partial(torch.autocast, "cuda", torch.float16),
    "bfloat16": partial(torch.autocast, "cuda", torch.bfloat16),
}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("door", DOORS)
def test_results_are_the_same(door: str, default: str, device: str, sample_folder: Path) -> None:
    path = min(sample_folder.rglob("*h264*.mp4"))
    expected = DOORS[door](path, device)
    with DEFAULTS[default]():
        given = DOORS[door](path, device)
    torch.testing.assert_close(given, expected, rtol=0, atol=0)
