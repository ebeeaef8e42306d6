"""A GPU as PyTorch's default device changes nothing."""

from __future__ import annotations

from collections.abc import Callable
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
}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("door", DOORS)
def test_results_are_the_same(door: str, device: str, sample_folder: Path) -> None:
    path = min(sample_folder.rglob("*h264*.mp4"))
    expected = DOORS[door](path, device)
    with torch.device("cuda"):
        given = DOORS[door](path, device)
    torch.testing.assert_close(given, expected, rtol=0, atol=0)
