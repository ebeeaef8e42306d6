"""Indexing on a Ray cluster gives the same store and report as locally."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from store_contents import contents

from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.indexing import build_store


@pytest.fixture
def paths(sample: Callable[[str], Path], tmp_path: Path) -> list[Path]:
    (tmp_path / "text.mp4").write_text("no video")
    links = []
    for number in range(100):
        video = sample(("h264_mp4", "vp9_webm", "hevc_mp4")[number % 3])
        links.append(tmp_path / f"{number}{video.suffix}")
        os.link(shutil.copy(video, tmp_path / f"a{video.suffix}"), links[-1])
    return [*links, tmp_path / "text.mp4"]


def test_a_cluster_builds_the_same_store(paths: list[Path], tmp_path: Path) -> None:
    from videoloader.interop import ray

    build_store(paths, tmp_path / "here.db", workers=1)
    seen: list[tuple[int, int]] = []
    report = ray.build_store(
        paths, tmp_path / "there.db", max_in_flight=2, progress=lambda *counts: seen.append(counts)
    )
    assert (report.indexed, report.unchanged) == (100, 0)
    assert [path for path, _ in report.unreadable] == [str(paths[-1])]
    assert seen[-1] == (101, 101)
    assert contents(tmp_path / "there.db") == contents(tmp_path / "here.db")
    again = build_store(paths, tmp_path / "here.db")
    assert (again.indexed, again.unchanged) == (0, 101)


def test_a_build_that_was_stopped_is_gone_on_with(paths: list[Path], tmp_path: Path) -> None:
    from videoloader.interop import ray

    def stop(done: int, total: int) -> None:
        if done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ray.build_store(paths, tmp_path / "index.db", max_in_flight=1, progress=stop)
    assert ray.build_store(paths, tmp_path / "index.db").unchanged == 64


def test_nothing_in_flight_is_refused(paths: list[Path], tmp_path: Path) -> None:
    from videoloader.interop import ray

    with pytest.raises(ConfigurationError, match="max_in_flight must be a positive integer, got 0"):
        ray.build_store(paths, tmp_path / "index.db", max_in_flight=0)


def test_wrong_arguments_are_named(paths: list[Path], tmp_path: Path) -> None:
    from videoloader.interop import ray

    for argument in ("root", "progress"):
        with pytest.raises(ArgumentError, match=f"build_store's {argument} must be .*, got 5"):
            ray.build_store(paths[:1], tmp_path / "index.db", **{argument: 5})
