"""A small sample of soak/loader_memory.py, and how it and soak/mixed_clips.py measure growth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from soak import loader_memory
from soak.footprint import Footprint, footprint, growth, leaks


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("loader", ["VideoLoader", "DecodingLoader"])
def test_batches_are_counted_over_epochs(tmp_path: Path, loader: str, anew: bool) -> None:
    paths = loader_memory.write_videos(tmp_path, ["h264_intra"])
    curve = loader_memory.run(paths, 30, loader=loader, epoch=10, anew=anew, device="cpu", num_workers=1)
    assert [row.done for row in curve] == [10, 20, 30]
    assert all(row.host > 0 and row.files > 0 for row in curve)
    assert all(0 < row.heap < row.host for row in curve)
    if anew:
        assert len({row.threads for row in curve}) == 1, "the next loader has the threads of the one before"


def test_what_grows_is_noticed() -> None:
    flat = [Footprint(done, 500 + done % 3, 900, 8, 4) for done in range(0, 10_000, 250)]
    assert not leaks(growth(flat, 1000))
    leaking = [row._replace(host=row.host + row.done / 200, files=8 + row.done // 500) for row in flat]
    assert leaks(growth(leaking, 1000)) == ["host MB", "files"]


def test_the_warm_up_does_not_count() -> None:
    curve = [Footprint(done, min(done, 1000), 0, 8, 4) for done in range(0, 10_000, 100)]
    assert growth(curve, 1000)["host MB"].rise == 0
    assert growth(curve, 0)["host MB"].rise > 0


def test_memory_and_files_that_are_held_are_seen() -> None:
    before = footprint(0, torch.device("cpu"))
    with open(__file__):
        held = torch.ones(100_000_000, dtype=torch.uint8)
        now = footprint(1, torch.device("cpu"))
    assert now.host - before.host == pytest.approx(100, abs=20)
    assert now.files == before.files + 1
    del held
    assert footprint(2, torch.device("cpu")).host - before.host < 20
