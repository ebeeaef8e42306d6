"""videoloader bench: its measurements, and its conclusions from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run, run_json

import videoloader as vl
from videoloader.cli.bench import _limit

FAST = ("--seconds", 0.2, "--device", "cpu", "--workers", 2, "--batch-size", 2)


def test_clips_are_counted_and_timed(folder: Path) -> None:
    told = run_json("bench", folder, "--mode", "RandomWindow(4)", "--transforms", "Resize(32)", *FAST)
    stats = told["stats"]
    assert told["clips_per_second"] == stats["clips"] / stats["seconds"] > 0
    assert stats["shown"] == 4 * stats["clips"]
    assert (told["device"], told["mode"], told["batch_size"]) == ("cpu", "RandomWindow(4)", 2)
    assert told["packets_per_frame"] >= 1


def test_people_are_told_the_rate_and_the_limit(folder: Path) -> None:
    told = run("bench", folder, "--mode", "[0, 1]", "--transforms", "", *FAST).stdout
    assert "a second, of [0, 1]" in told
    assert "clips/s" in told
    assert "limit     " in told


def test_unreadable_files_are_left_out_and_told(folder: Path, broken: Path) -> None:
    done = run("bench", folder, "--mode", "RandomWindow(4)", "--transforms", "Resize(32)", *FAST)
    assert done.exit_code == 0, done.stderr
    assert f"left out: {broken}: libavformat" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--transforms", "Resize(32), Nothing()"), "there is no 'Nothing' here"),
        (("--transforms", "Resize("), "is not transforms"),
        (("--device", "tpu"), "device must be"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run("bench", folder, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("stats", "limit"),
    [
        (vl.LoaderStats(clips=1, frames=10, packets=90, seconds=1, planning=0.95), "planning"),
        (vl.LoaderStats(clips=1, frames=10, packets=90, seconds=1, transforming=0.95), "transforms"),
        (vl.LoaderStats(clips=1, frames=10, packets=90, seconds=1, cpu=2), "decoding: 9.0 packets per frame"),
        (vl.LoaderStats(clips=1, frames=10, packets=11, seconds=1, cpu=2), "decoding: smaller pictures"),
    ],
)
def test_the_limit_is_the_stage_that_is_always_busy(stats: vl.LoaderStats, limit: str) -> None:
    assert _limit(stats).startswith(limit)
