"""videoloader merge: several stores become one."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run, run_json

import videoloader as vl


@pytest.fixture
def parts(folder: Path, tmp_path: Path) -> list[Path]:
    """A store of each of the two videos."""
    stores = [tmp_path / "part-0.db", tmp_path / "part-1.db"]
    for store, name in zip(stores, ("h264_mp4", "vp9_webm"), strict=True):
        run("index", folder / name, "-o", store, "--workers", 1)
    return stores


def test_parts_become_one_store(parts: list[Path], tmp_path: Path) -> None:
    done = run("merge", *parts, "-o", tmp_path / "all.db")
    assert done.exit_code == 0, done.stderr
    assert "2 added, 0 replaced by newer ones, 0 the same, 0 older and left out" in done.stdout
    assert "vp9" in done.stdout
    assert len(vl.IndexStore(tmp_path / "all.db")) == 2
    again = run_json("merge", *parts, "-o", tmp_path / "all.db")
    assert (again["videos"], again["added"], again["same"]) == (2, 0, 2)


def test_nothing_readable_is_exit_code_1(folder: Path, broken: Path, tmp_path: Path) -> None:
    run("index", broken, "-o", tmp_path / "part.db")
    assert run("merge", tmp_path / "part.db", "-o", tmp_path / "all.db").exit_code == 1


def test_what_is_no_store_is_exit_code_2(parts: list[Path], folder: Path, tmp_path: Path) -> None:
    done = run("merge", *parts, folder / "h264_mp4/h264_mp4.mp4", "-o", tmp_path / "all.db")
    assert done.exit_code == 2
    assert "is not an index store" in done.stderr
    assert not (tmp_path / "all.db").exists()
