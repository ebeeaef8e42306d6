"""A loader over an index store: the same clips as without it, with few indexes in memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from child_environment import SAFE_PATH, child_environment
from waiting import PATIENCE

import videoloader as vl
from videoloader.indexing.store.cache import IndexCache

NAMES = ("h264_mp4", "hevc_mp4", "vp9_webm", "h264_ts", "h264_mp4_intra_refresh")


@pytest.fixture
def paths(sample: Callable[[str], Path], tmp_path: Path) -> list[Path]:
    return [Path(shutil.copy(sample(name), tmp_path)) for name in NAMES]


def make(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 3, "device": "cpu", "num_workers": 2, "shuffle": True, "seed": 5}
    return vl.VideoLoader(data, vl.RandomWindow(4, stride=3, clips=3), **(defaults | settings))


def assert_same_batches(one: list[vl.Batch], other: list[vl.Batch]) -> None:
    for mine, others in zip(one, other, strict=True):
        assert torch.equal(mine.frames, others.frames)
        assert np.array_equal(mine.timestamps, others.timestamps)
        assert (mine.paths, mine.clips.tolist()) == (others.paths, others.clips.tolist())


@pytest.mark.parametrize("capacity", [1, 1 << 26])
def test_batches_are_those_of_a_loader_without_a_store(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capacity: int
) -> None:
    monkeypatch.setattr(IndexCache.__init__, "__defaults__", (capacity,))
    ends = [{}, {"start": 8}, {"start_seconds": 0.5}, {"stop_seconds": 2.0}, {"start": 20, "stop_seconds": 2.2}]
    data = vl.VideoDataset([vl.VideoEntry(str(path), **end) for path, end in zip(paths, ends, strict=True)])
    assert data.build_store(tmp_path / "index.db", workers=1).indexed == 5
    plain, stored = make(data), make(data, index=tmp_path / "index.db")
    assert stored.state_dict() == plain.state_dict()
    for _ in range(2):
        assert_same_batches(list(stored), list(plain))
    again = make(data, index=vl.IndexStore(tmp_path / "index.db"))
    again.load_state_dict(make(data).state_dict())
    assert_same_batches(list(again), list(make(data)))


@pytest.mark.parametrize("sharding", ["strided", "contiguous", "stick_to_shard", vl.ByColumn("node")], ids=str)
def test_a_state_goes_on_in_a_data_set_that_was_saved(paths: list[Path], tmp_path: Path, sharding: Any) -> None:
    pytest.importorskip("pyarrow")
    data = vl.VideoDataset([
        vl.VideoEntry(str(path), start_seconds=row / 10, columns={"node": row % 2}) for row, path in enumerate(paths)
    ])  # fmt: skip
    data.build_store(tmp_path / "index.db", workers=1)
    data.save(tmp_path / "rows.arrow", store=tmp_path / "index.db")
    saved = vl.VideoDataset.load(tmp_path / "rows.arrow")
    settings: dict[str, Any] = {"sharding": sharding, "num_shards": 2, "shard_id": 1, "last_batch": "uneven"}
    plain, stored = make(data, **settings), make(saved, index=tmp_path / "index.db", **settings)
    for one, other in ((plain, stored), (stored, plain)):
        batches = iter(one)
        next(batches)
        other.load_state_dict(one.state_dict())
        left = list(batches)
        assert left
        assert_same_batches(list(other), left)


def test_a_loader_is_made_without_expanding_an_index(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = vl.VideoDataset.from_paths(paths)
    data.build_store(tmp_path / "index.db", workers=1)
    store = vl.IndexStore(tmp_path / "index.db")
    monkeypatch.setattr(vl.IndexStore, "get", None)
    assert make(data, index=store).num_clips == 15


def test_a_video_that_was_never_indexed_is_an_error_whatever_is_skipped(paths: list[Path], tmp_path: Path) -> None:
    vl.VideoDataset.from_paths(paths[:2]).build_store(tmp_path / "index.db", workers=1)
    for on_error in ("raise", "skip", "replace"):
        with pytest.raises(vl.NotIndexedError, match="build_store"):
            make(vl.VideoDataset.from_paths(paths), index=tmp_path / "index.db", on_error=on_error)


@pytest.mark.parametrize("trouble", ["unreadable", "stale"])
def test_unreadable_and_stale_videos_are_treated_alike(paths: list[Path], tmp_path: Path, trouble: str) -> None:
    if trouble == "unreadable":
        paths[1].write_text("no video")
    data = vl.VideoDataset.from_paths(paths)
    data.build_store(tmp_path / "index.db", workers=1)
    if trouble == "stale":
        with paths[1].open("ab") as file:
            file.write(b"more")
    with pytest.raises(vl.VideoLoaderError, match=paths[1].name):
        make(data, index=tmp_path / "index.db")
    loader = make(data, index=tmp_path / "index.db", on_error="skip")
    assert loader.num_clips == 12
    assert [path for path, _ in loader.unreadable] == [str(paths[1])]


def test_an_entry_beyond_its_video_is_an_error(paths: list[Path], tmp_path: Path) -> None:
    data = vl.VideoDataset([vl.VideoEntry(str(paths[0]), start=50, stop=61)])
    data.build_store(tmp_path / "index.db", workers=1)
    with pytest.raises(
        vl.FrameRangeError, match=r"no frames for start=50, stop=61; the video lasts 0–2.4 s, 60 frames"
    ):
        make(data, index=tmp_path / "index.db")


_PROGRAM = """
import sys
import videoloader as vl
data = vl.VideoDataset.from_paths(sys.argv[2:])
loader = vl.VideoLoader(data, vl.RandomWindow(4), batch_size=1, index=sys.argv[1], device="cpu", num_workers={workers})
batch = next(iter(loader))
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_program_that_keeps_its_loader_ends_without_a_word(paths: list[Path], tmp_path: Path, workers: int) -> None:
    vl.VideoDataset.from_paths(paths).build_store(tmp_path / "index.db", workers=1)
    command = [sys.executable, *SAFE_PATH, "-c", _PROGRAM.format(workers=workers), tmp_path / "index.db", *paths]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
