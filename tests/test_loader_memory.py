"""A small sample of soak/loader_memory.py, and how it and soak/mixed_clips.py measure growth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from child_environment import SAFE_PATH, child_environment
from soak import loader_memory
from soak.footprint import Footprint, footprint, growth, leaks

TESTS = Path(__file__).parent, Path(__file__).parent / "helpers"


@pytest.mark.parametrize("loader", ["VideoLoader", "DecodingLoader"])
def test_batches_are_counted_over_epochs(tmp_path: Path, loader: str) -> None:
    paths = loader_memory.write_videos(tmp_path, ["h264_intra"])
    curve = loader_memory.run(paths, 30, loader=loader, epoch=10, device="cpu", num_workers=1)
    assert [row.done for row in curve] == [10, 20, 30]
    assert all(row.host > 0 and row.files > 0 for row in curve)
    assert all(0 < row.heap < row.host for row in curve)


@pytest.mark.parametrize("loader", ["VideoLoader", "DecodingLoader"])
def test_the_next_loader_has_the_threads_of_the_one_before(tmp_path: Path, loader: str) -> None:
    """In a process of its own, since threads that other tests have left may end at any time."""
    paths = list(map(str, loader_memory.write_videos(tmp_path, ["h264_intra"])))
    program = f"""
from soak import loader_memory
curve = loader_memory.run({paths}, 30, loader={loader!r}, epoch=10, anew=True, device="cpu", num_workers=1)
print(*(row.threads for row in curve))
"""
    command = [sys.executable, *SAFE_PATH, "-c", program]
    printed = subprocess.check_output(command, env=child_environment(*TESTS), cwd=tmp_path, text=True)
    threads = printed.split()
    assert len(threads) == 3
    assert len(set(threads)) == 1


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
