"""The recipe learns, which it could not if crops, flips or labels were mixed up."""

from __future__ import annotations

from pathlib import Path

from child_environment import child_environment
from forked_programs import run_program

SAMPLE = Path(__file__).parents[2] / "samples" / "image_classification" / "train.py"


def test_it_learns_four_patterns(tmp_path: Path) -> None:
    ran = run_program(
        SAMPLE,
        "--device=cpu",
        "--workers=2",
        "--epochs=3",
        "--require-accuracy=0.8",
        cwd=tmp_path,
        # One thread: with more, each operation waits for all of them, which takes long where cores are busy.
        env={**child_environment(), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "480 images to train on, 120 to validate, 4 classes" in ran.stdout
