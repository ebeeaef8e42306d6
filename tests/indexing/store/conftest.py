"""A small data set, and its index store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from store_contents import build_here

NAMES = ("h264_mp4", "hevc_mp4", "vp9_webm", "h264_ts", "h264_mp4_vfr")


@pytest.fixture
def videos(sample: Callable[[str], Path], tmp_path: Path) -> list[Path]:
    """Copies of five videos in folders, and a file that is none."""
    folder = tmp_path / "data"
    paths = []
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        paths.append(Path(shutil.copy(sample(name), folder / name)))
    (folder / "text.mp4").write_text("no video")
    return [*paths, folder / "text.mp4"]


@pytest.fixture
def store_path(videos: list[Path], tmp_path: Path) -> Path:
    """A store of them, in the folder above."""
    path = tmp_path / "index.db"
    build_here(videos, path)
    return path


@pytest.fixture
def many(videos: list[Path], tmp_path: Path) -> list[Path]:
    """150 links to the videos."""
    paths = list[Path]()
    for number in range(150):
        video = videos[number % len(videos)]
        paths.append(tmp_path / "data" / f"{number}{video.suffix}")
        os.link(video, paths[-1])
    return paths
