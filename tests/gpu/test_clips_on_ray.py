"""Clips that Ray's actors decode on a GPU are those of a loader there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from local_cluster import local_cluster
from painted_videos import write_painted

import videoloader as vl

pytest.importorskip("ray")
# A cluster in want of something waits without end.
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

MODE = vl.RandomWindow(8, stride=2, clips=5)
RECIPE = (vl.RandomResizedCrop(64), vl.RandomHorizontalFlip(), vl.Normalize())


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """How many Ray has."""
    count = torch.cuda.device_count()
    with local_cluster(tmp_path_factory.mktemp("driver"), num_cpus=count, num_gpus=count):
        yield count


def test_rows_are_those_of_a_loader(tmp_path: Path, gpus: int) -> None:
    from videoloader.interop.ray import read_clips

    paths = [write_painted(tmp_path, name) for name in ("h264_long_gop", "h264_open_pyramid", "h264_many_references")]
    data = vl.VideoDataset.from_paths(paths)
    rows = read_clips(
        data, MODE, transforms=RECIPE, dtype="float16", seed=3, batch_size=2, concurrency=gpus, num_gpus=1
    ).take_all()
    loader = vl.VideoLoader(data, MODE, transforms=RECIPE, dtype="float16", seed=3, batch_size=4, device="cuda")
    expected = {
        clip: frames.cpu().numpy()
        for batch in loader
        for clip, frames in zip(batch.clips.tolist(), batch.frames, strict=True)
    }
    assert sorted(row["clip"] for row in rows) == sorted(expected)
    # To the bit: conversion on the CPU would differ.
    assert all(np.array_equal(row["frames"], expected[row["clip"]]) for row in rows)
