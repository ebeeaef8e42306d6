"""Videos for the tests of commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")


@pytest.fixture
def folder(sample: Callable[[str], Path], tmp_path: Path) -> Path:
    """A folder with two videos in folders of their own, whose path is longer than a line."""
    data = tmp_path / ("a_path_longer_than_a_line_" * 8) / "data"
    for name in ("h264_mp4", "vp9_webm"):
        (data / name).mkdir(parents=True)
        shutil.copy(sample(name), data / name)
    return data


@pytest.fixture
def broken(folder: Path) -> Path:
    """A file in that folder that is no video."""
    path = folder / "vp9_webm" / "[b]text.mp4"
    path.write_text("no video")
    return path
