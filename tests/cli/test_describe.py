"""videoloader describe: what a data set holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run, run_json


@pytest.mark.parametrize("stored", [False, True])
def test_a_data_set_is_described(folder: Path, stored: bool) -> None:
    options = ("--index", folder / "index.db") if stored else ()
    if stored:
        run("index", folder, "-o", folder / "index.db", "--workers", 1)
    told = run("describe", folder, "--mode", "RandomWindow(4, stride=2)", *options).stdout
    for fact in ("2 in 2 rows, 2 classes", "120 frames", "h264 50 %", "160×128 100 %", "re-encode with GOP 12"):
        assert fact in told


def test_json_has_the_same_figures(folder: Path) -> None:
    told = run_json("describe", folder, "--mode", "[0, 12]")
    assert (told["videos"], told["classes"], told["frames"]) == (2, 2, 120)
    assert told["sizes"] == [[128, 160, 2]]
    assert told["cost"]["mode"] == "FrameList(frames=(0, 12), pad='none')"


def test_root_is_where_relative_paths_of_a_table_start(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("path,label\nh264_mp4/h264_mp4.mp4,1\n")
    assert run_json("describe", tmp_path / "rows.csv", "--root", folder)["videos"] == 1


def test_an_index_store_is_a_data_set(folder: Path) -> None:
    run("index", folder, "-o", folder / "index.db", "--workers", 1)
    assert run_json("describe", folder / "index.db", "--index", folder / "index.db")["videos"] == 2
