"""Remote clips decoded by workers of a torch DataLoader: exact frames, and one request for each clip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from archive_writing import tar_bytes
from range_server import RangeServer, serve
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.interop.torch import ClipDataset, stack_clips

Sample = Callable[[str], Path]
NAMES = ("h264_mp4", "vp9_webm", "hevc_mp4")
MODE = vl.EveryWindow(4, step=15)
CLIPS = 4 * 2 * len(NAMES)
SETTINGS: dict[str, Any] = {"transforms": [vl.RandomResizedCrop(32)], "seed": 3}
each_start = pytest.mark.parametrize(("workers", "start"), [(0, None), (2, "fork")])


@pytest.fixture
def server(sample: Sample) -> Iterator[RangeServer]:
    files = {sample(name).name: sample(name).read_bytes() for name in NAMES}
    with serve(files | {"x.tar": tar_bytes(files)}) as server:
        yield server


@pytest.fixture
def data(server: RangeServer) -> vl.VideoDataset:
    """Files and members of an archive."""
    names = [name for name in server.files if name != "x.tar"]
    return vl.VideoDataset.from_paths(server.url + name for name in (*names, *(f"x.tar::{name}" for name in names)))


@pytest.fixture
def expected(sample: Sample) -> list[torch.Tensor]:
    files = vl.VideoDataset.from_paths([sample(name) for name in NAMES] * 2)
    return [each.frames for each in vl.VideoLoader(files, MODE, batch_size=4, device="cpu", num_workers=0, **SETTINGS)]


def batches(clips: ClipDataset, workers: int, start: str | None) -> list[torch.Tensor]:
    settings: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": start}
    return [batch.frames for batch in DataLoader(clips, batch_size=4, collate_fn=stack_clips, **settings)]


@each_start
def test_with_a_store_each_clip_takes_one_request(
    data: vl.VideoDataset,
    server: RangeServer,
    expected: list[torch.Tensor],
    tmp_path: Path,
    workers: int,
    start: str | None,
) -> None:
    data.build_store(tmp_path / "x.db", workers=1)
    server.forget()
    asked = server.asked
    given = batches(ClipDataset(data, MODE, index=tmp_path / "x.db", **SETTINGS), workers, start)
    assert len(server.requests) == server.asked - asked == CLIPS
    assert len(given) == len(expected)
    assert all(map(torch.equal, given, expected))


@each_start
def test_without_one_workers_ask_for_no_more(
    data: vl.VideoDataset, server: RangeServer, expected: list[torch.Tensor], workers: int, start: str | None
) -> None:
    clips = ClipDataset(data, MODE, **SETTINGS)
    server.forget()
    given = batches(clips, workers, start)
    assert len(server.requests) <= CLIPS
    assert len(given) == len(expected)
    assert all(map(torch.equal, given, expected))
