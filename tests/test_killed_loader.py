"""An epoch whose process is killed repeatedly has the same clips as an undisturbed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forked_programs import Program
from soak.kill_loader import kill_epoch, prepare, seen_in


def test_a_killed_epoch_goes_on_to_the_clip(sample: Callable[[str], Path], tmp_path: Path) -> None:
    paths = [sample(name) for name in ("h264_mp4", "vp9_webm", "h264_ts") * 2]
    for name, kills in (("clean", 0), ("killed", 2)):
        prepare(tmp_path / name, paths)
        assert kill_epoch(tmp_path / name, kills, seed=1, start=Program) == kills
    seen = seen_in(tmp_path / "clean")
    assert sorted(clip for clip, _ in seen) == list(range(24))
    assert seen_in(tmp_path / "killed") == seen
