"""Embeddings written by a cluster belong to the clips that the table names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from child_environment import child_environment
from forked_programs import run_program

import videoloader as vl

parquet = pytest.importorskip("pyarrow.parquet")

SAMPLE = Path(__file__).parents[3] / "samples" / "embeddings" / "embed.py"


def test_every_clip_has_its_embedding(tmp_path: Path) -> None:
    import ray

    # It joins the cluster of the other tests, since starting one takes long.
    address = ray.get_runtime_context().gcs_address
    environment = {**child_environment(), "RAY_ADDRESS": address, "PYTHONSAFEPATH": "1"}
    ran = run_program(SAMPLE, "out", "--frames", "8", "--stride", "4", cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    table = parquet.read_table(tmp_path / "out").to_pydict()
    mode = vl.EveryWindow(8, stride=4, step=32, pad="edge")
    wanted = {
        (os.path.realpath(entry.path), clip.timestamps[0])
        for entry in vl.VideoDataset.from_folder(tmp_path / "videos_to_embed")
        for clip in vl.Video(entry.path, device="cpu").read_clips(mode)
    }
    clips = zip(map(os.path.realpath, table["path"]), table["start"], strict=True)
    written = dict(zip(clips, table["embedding"], strict=True))
    assert written.keys() == wanted
    vectors = np.array(list(written.values()))
    assert vectors.shape == (len(wanted), 32)
    assert np.isfinite(vectors).all()
    assert len(np.unique(vectors, axis=0)) == len(vectors)
