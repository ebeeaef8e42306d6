"""Two GPUs in one process: each video is decoded on the device it was asked for, whatever the current one is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from changing_streams import write_h264

import videoloader as vl
from videoloader.decoding.sessions import pool_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs"),
]


def test_videos_are_decoded_on_the_device_asked_for(tmp_path: Path) -> None:
    path = write_h264(tmp_path / "video.mp4", 3)
    expected = vl.Video(path, device="cpu")[:].int()
    for current in (0, 1):
        with torch.cuda.device(current):
            for device in ("cuda:1", "cuda:0"):
                frames = vl.Video(path, device=device)[:]
                assert frames.device == torch.device(device)
                assert (frames.cpu().int() - expected).abs().max() <= 2
                assert torch.cuda.current_device() == current
    assert pool_of(0).used_bytes() > 0
    assert pool_of(1).used_bytes() > 0


def test_loaders_on_both_devices_at_once(tmp_path: Path) -> None:
    paths = [write_h264(tmp_path / f"{references}.mp4", references) for references in (1, 3, 16)]
    data = vl.VideoDataset.from_paths(paths * 4)
    loaders = [
        iter(vl.VideoLoader(data, vl.RandomWindow(6, stride=3, clips=2), batch_size=6, device=device, seed=1))
        for device in ("cpu", "cuda:0", "cuda:1")
    ]
    for expected, *batches in zip(*loaders, strict=True):
        for batch in batches:
            assert (batch.frames.cpu().int() - expected.frames.int()).abs().max() <= 2
