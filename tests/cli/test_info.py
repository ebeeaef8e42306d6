"""videoloader info: what is known of a video, and of a store."""

from __future__ import annotations

from pathlib import Path

from commands import run, run_json


def test_a_video_is_told_in_facts(folder: Path) -> None:
    told = run("info", folder / "h264_mp4/h264_mp4.mp4").stdout
    for fact in ("h264 in mp4", "160×128", "60 in 2.400 s, 25.000 a second", "5 keyframes"):
        assert fact in told


def test_a_store_is_told_by_codec(folder: Path, broken: Path) -> None:
    run("index", folder, "-o", folder / "index.db", "--workers", 1)
    told = run_json("info", folder / "index.db")
    assert (told["videos"], told["unreadable"], told["frames"]) == (2, 1, 120)
    assert {each["codec"]: each["videos"] for each in told["codecs"]} == {"h264": 1, "vp9": 1}
