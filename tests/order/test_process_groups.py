"""Ranks in separate processes, in step with each other: together they see every clip once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked_programs import run_program

# Each batch ends with a collective operation, as a training step does: with unequal numbers of them it never returns.
# A barrier does: gloo's threads let go of its tensors late, and torch aborts a process that is about to end where they
# let go of one that Python has seen.
# One process imports torch for all. No thread of Python has started when it forks.
SCRIPT = """
import json, os, sys
import torch
import torch.distributed as dist
import videoloader as vl
from videoloader import RandomWindow, VideoLoader

folder, ranks, batches = sys.argv[1], *map(int, sys.argv[2:])
children = []
for rank in range(ranks):
    children.append(os.fork())
    if not children[-1]:
        break
else:
    sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting{ranks}", rank=rank, world_size=ranks)
settings = json.load(open(f"{folder}/settings.json"))
data = vl.VideoDataset.from_paths(settings["paths"])
for name in settings["shardings"]:
    loader = vl.VideoLoader(
        data,
        vl.RandomWindow(2, clips=7),
        batch_size=2,
        device="cpu",
        num_workers=1,
        shuffle=True,
        sharding=name,
        index=f"{folder}/index.db",
    )
    if name in settings["states"]:
        loader.load_state_dict(settings["states"][name])
    seen = []
    for number, batch in enumerate(loader):
        dist.barrier()
        seen += batch.clips.tolist()
        if number + 1 == batches:
            break
    json.dump({"seen": seen, "state": loader.state_dict()}, open(f"{folder}/{name}.{rank}.json", "w"))
dist.barrier()
dist.destroy_process_group()
"""
SHARDINGS = ("strided", "contiguous", "stick_to_shard")


def run_ranks(folder: Path, paths: list[Path], ranks: int, batches: int, states: dict[str, Any]) -> dict[str, Any]:
    """Have so many processes take some batches of each kind of sharding, all there are with ``batches=0``."""
    settings = {"paths": [str(path) for path in paths], "shardings": SHARDINGS, "states": states}
    (folder / "settings.json").write_text(json.dumps(settings))
    done = run_program(SCRIPT, folder, ranks, batches)
    assert done.returncode == 0, done.stderr
    together = {}
    for name in SHARDINGS:
        told = [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in range(ranks)]
        assert all(rank["state"] == told[0]["state"] for rank in told)
        together[name] = {"seen": [clip for rank in told for clip in rank["seen"]], "state": told[0]["state"]}
    return together


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4)])
def test_ranks_see_every_clip_once_and_others_go_on(
    sample: Callable[[str], Path], tmp_path: Path, before: int, after: int
) -> None:
    import videoloader as vl

    paths = [sample(name) for name in ("h264_mp4", "vp9_webm", "h264_ts", "hevc_mp4")]
    vl.VideoDataset.from_paths(paths).build_store(tmp_path / "index.db", workers=1)
    first = run_ranks(tmp_path, paths, before, 1, {})
    rest = run_ranks(tmp_path, paths, after, 0, {name: first[name]["state"] for name in SHARDINGS})
    for name in SHARDINGS:
        assert len(first[name]["seen"]) == 2 * before
        assert sorted(first[name]["seen"] + rest[name]["seen"]) == list(range(28))
        assert rest[name]["state"]["epoch"] == 1
