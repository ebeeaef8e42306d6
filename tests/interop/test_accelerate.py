"""Loaders in Accelerate's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from late_modules import LateModule
from torch.utils.data import DataLoader
from torch_datasets import Captioned

import videoloader as vl
from videoloader.interop.torch import DecodingLoader

accelerate = LateModule("accelerate", reason="needs Accelerate")
Sample = Callable[[str], Path]


def video_loader(paths: list[str]) -> vl.VideoLoader:
    data = vl.VideoDataset.from_paths(paths)
    mode = vl.RandomWindow(2, clips=5)
    return vl.VideoLoader(data, mode, batch_size=2, device="cpu", num_workers=1, shuffle=True, seed=2)


def decoding_loader(paths: list[str]) -> DecodingLoader:
    return DecodingLoader(DataLoader(Captioned(paths, 10, seeded=False), batch_size=2), device="cpu", num_workers=1)


def frames_of(batch: Any) -> torch.Tensor:
    frames: torch.Tensor = batch.frames if isinstance(batch, vl.Batch) else batch["video"]
    return frames


@pytest.mark.parametrize("make", [video_loader, decoding_loader])
@pytest.mark.parametrize("taken", [0, 2, 5])
def test_a_saved_state_resumes_exactly(sample: Sample, tmp_path: Path, make: Callable[..., Any], taken: int) -> None:
    paths = [str(sample("h264_mp4")), str(sample("vp9_webm"))]
    whole = make(paths)
    expected = [frames_of(batch) for _ in range(2) for batch in whole]
    assert len(expected) == 10

    def prepared() -> tuple[Any, Any]:
        accelerator = accelerate.Accelerator(cpu=True)
        loader = accelerator.prepare(make(paths))  # which leaves alone what is no DataLoader
        accelerator.register_for_checkpointing(loader)
        return accelerator, loader

    accelerator, loader = prepared()
    running = iter(loader)
    assert all(map(torch.equal, map(frames_of, islice(running, taken)), expected))
    accelerator.save_state(str(tmp_path / "state"))
    accelerator, loader = prepared()
    accelerator.load_state(str(tmp_path / "state"))
    rest = [frames_of(batch) for batch in loader]
    if taken < 5:
        rest += [frames_of(batch) for batch in loader]
    assert len(rest) == 10 - taken
    assert all(map(torch.equal, rest, expected[taken:]))


def test_batches_are_sent_to_devices(sample: Sample) -> None:
    batch = next(iter(video_loader([str(sample("h264_mp4"))])))
    sent = accelerate.utils.send_to_device(batch, torch.device("meta"))
    assert isinstance(sent, vl.Batch)
    assert sent.frames.device.type == "meta"
