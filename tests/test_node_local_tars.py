"""Tars on local disks: every rank reads only those of its node, and all have the same number of batches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archive_writing import tar_bytes

import videoloader as vl
from videoloader.order.by_column import ByColumn
from videoloader.order.shuffle import ShuffleVideos

# Which sample videos each tar holds, and the node that gets it.
TARS = {"0.tar": ("h264_mp4", "vp9_webm"), "1.tar": ("hevc_mp4",), "2.tar": ("h264_ts", "h264_mp4_vfr")}
NODES = {"0.tar": 0, "1.tar": 1, "2.tar": 1}


@pytest.fixture
def shared(sample: Callable[[str], Path], tmp_path: Path) -> Path:
    """All tars, a table of what they hold, and an index of it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    rows = []
    for tar, names in TARS.items():
        files = {f"{number:04}{sample(name).suffix}": sample(name).read_bytes() for number, name in enumerate(names)}
        (folder / tar).write_bytes(tar_bytes(files))
        rows += [{"path": f"{tar}::{member}", "label": len(rows), "node": NODES[tar]} for member in files]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    vl.VideoDataset.from_csv(folder / "rows.jsonl").build_store(folder / "all.db", workers=1)
    return folder


@pytest.fixture
def nodes(shared: Path, tmp_path: Path) -> list[Path]:
    """The folder of each node's disk, with its tars and nothing else; those on shared storage are gone."""
    folders = [tmp_path / f"node{node}" for node in range(2)]
    for tar, node in NODES.items():
        folders[node].mkdir(exist_ok=True)
        shutil.move(shared / tar, folders[node])
    return folders


def loader_of(shared: Path, node: Path, rank: int, ranks: int, **settings: Any) -> vl.VideoLoader:
    return vl.VideoLoader(
        vl.VideoDataset.from_csv(shared / "rows.jsonl", root=node),
        vl.RandomWindow(3, stride=2, clips=6),
        batch_size=2,
        device="cpu",
        num_workers=1,
        shard_id=rank,
        num_shards=ranks,
        sharding=ByColumn("node"),
        index=vl.IndexStore(shared / "all.db", root=node, verify=False),
        **settings,
    )


@pytest.mark.parametrize("shuffle", [False, True, ShuffleVideos(2)])
@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_reads_the_tars_of_its_node(shared: Path, nodes: list[Path], ranks: int, shuffle: Any) -> None:
    loaders = [loader_of(shared, nodes[rank * 2 // ranks], rank, ranks, shuffle=shuffle) for rank in range(ranks)]
    for _ in range(2):
        epochs = [list(loader) for loader in loaders]
        assert len({len(batches) for batches in epochs}) == 1
        clips = sorted(clip for batches in epochs for batch in batches for clip in batch.clips.tolist())
        assert clips == list(range(30))


def test_an_epoch_goes_on_with_other_ranks_on_the_same_nodes(shared: Path, nodes: list[Path]) -> None:
    seen, states = [], []
    for rank in range(4):
        loader = loader_of(shared, nodes[rank // 2], rank, 4, shuffle=True)
        for batch in loader:
            seen += batch.clips.tolist()
            break
        states.append(loader.state_dict())
    for rank in range(2):
        loader = loader_of(shared, nodes[rank], rank, 2, shuffle=True)
        loader.load_state_dict(states[rank])
        seen += [clip for batch in loader for clip in batch.clips.tolist()]
    assert sorted(seen) == list(range(30))


def test_a_damaged_video_is_replaced_by_one_of_the_same_node(shared: Path, nodes: list[Path]) -> None:
    tar = nodes[1] / "1.tar"
    content = bytearray(tar.read_bytes())
    content[2000:-2000] = bytes(len(content) - 4000)
    tar.write_bytes(content)
    loader = loader_of(shared, nodes[1], 1, 2, on_error="replace")
    paths = [path for batch in loader for path in batch.paths]
    assert len(paths) == 18
    assert all(path.startswith(str(nodes[1])) for path in paths)
    assert {path for path, _ in loader.unreadable} == {f"{tar}::0000.mp4"}
