"""The network beats blending, which it could not if inputs, targets, times or crops were mixed up."""

from __future__ import annotations

from pathlib import Path

from child_environment import child_environment
from forked_programs import run_program

SAMPLE = Path(__file__).parents[2] / "samples" / "frame_interpolation" / "train.py"


def test_it_beats_blending_on_motion_that_it_has_not_seen(tmp_path: Path) -> None:
    small = ["--steps", "120", "--batch-size", "8", "--write-videos", "10", "--require-gain", "1"]
    ran = run_program(
        SAMPLE,
        "--device=cpu",
        *small,
        cwd=tmp_path,
        # One thread: with more, each operation waits for all of them, which takes long where cores are busy.
        env={**child_environment(), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 videos to train on, 2 to test" in ran.stdout
    assert "numbers are missing between" in ran.stderr
