"""Samples that take seconds do what they say."""

from __future__ import annotations

import difflib
import importlib.util
import re
from pathlib import Path

import pytest
from child_environment import child_environment
from forked_programs import run_program

SAMPLES = Path(__file__).parents[2] / "samples"


def said_by(sample: str, folder: Path, *arguments: str) -> str:
    """What a sample prints that runs in a folder."""
    ran = run_program(
        SAMPLES / sample,
        *arguments,
        cwd=folder,
        # One thread: with more, each operation waits for all of them, which takes long where cores are busy.
        env={**child_environment(), "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_dataloader_project_is_changed_in_three_lines(tmp_path: Path) -> None:
    before, after = (
        (SAMPLES / "dataloader_proxy" / f"{name}.py").read_text().partition("from __future__")[2].splitlines()
        for name in ("before", "after")
    )
    changes = [line for line in difflib.ndiff(before, after) if line[:2] in ("- ", "+ ") and line[2:].strip()]
    assert len([line for line in changes if line[0] == "+"]) == 3, changes
    assert len([line for line in changes if line[0] == "-"]) == 3, changes
    for name in ("before", "after"):
        said = said_by(f"dataloader_proxy/{name}.py", tmp_path, "--videos=1", "--epochs=1", "--workers=1")
        assert re.fullmatch(r"epoch 1: loss 0\.\d+, 2 batches\n", said)


def test_shards_on_a_server_are_not_downloaded_whole(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    said = said_by("remote_shards/train.py", tmp_path, "--videos=2", "--epochs=1", "--device=cpu")
    assert "6 videos in 2 shards, 6 indexed" in said
    sent = re.search(r"the shards hold (\S+) MB, (\S+) MB were sent", said)
    assert sent is not None
    assert float(sent[2]) > 0


def test_several_views_of_each_video_are_counted_once(tmp_path: Path) -> None:
    arguments = ("--videos=8", "--clips=3", "--device=cpu", "--require-accuracy=0.5")
    said = said_by("multi_view_test/evaluate.py", tmp_path, *arguments)
    assert "one clip: 1 × 12 videos" in said
    assert "several views: 9 × 12 videos" in said


def test_jax_learns_from_frames_that_are_not_copied(tmp_path: Path) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax")
    said_by("jax_training/train.py", tmp_path, "--videos=8", "--epochs=2", "--require-accuracy=0.6")


def test_every_sample_has_a_line_in_the_list() -> None:
    told = set(re.findall(r"^\| \[`(\S+?)`\]", (SAMPLES / "README.md").read_text("utf-8"), re.MULTILINE))
    programs = {path for path in SAMPLES.rglob("*.py") if "__main__" in path.read_text("utf-8")}
    programs |= set(SAMPLES.glob("*/*.ipynb")) | {SAMPLES / "quickstart.py"}
    assert told == {path.relative_to(SAMPLES).as_posix() for path in programs}
