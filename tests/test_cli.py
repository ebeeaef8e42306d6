"""The command videoloader: what it prints, and how it ends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from child_environment import SAFE_PATH

import videoloader as vl

pytest.importorskip("typer")
pytest.importorskip("rich")
COMMAND = [sys.executable, *SAFE_PATH, "-c", "from videoloader.cli import app; app()"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, env=environment)


@pytest.fixture
def folder(sample: Callable[[str], Path], tmp_path: Path) -> Path:
    data = tmp_path / ("a_path_longer_than_a_line_" * 8) / "data"
    for name in ("h264_mp4", "vp9_webm"):
        (data / name).mkdir(parents=True)
        shutil.copy(sample(name), data / name)
    return data


def test_a_folder_becomes_a_store(folder: Path) -> None:
    store = folder / "index.db"
    done = run("index", folder, "-o", store, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "2 indexed, 0 unchanged, 0 unreadable" in done.stdout
    assert "vp9" in done.stdout
    assert "120" in done.stdout  # frames
    assert len(vl.IndexStore(store)) == 2
    again = run("index", folder, "-o", store, "--workers", 1)
    assert "0 indexed, 2 unchanged" in again.stdout
    assert "h264" in run("info", store).stdout


def test_tables_lists_and_files_may_be_given_together(folder: Path) -> None:
    one, other = folder / "h264_mp4/h264_mp4.mp4", folder / "vp9_webm/vp9_webm.webm"
    (folder / "rows.csv").write_text("path,label\nh264_mp4/h264_mp4.mp4,1\n")
    (folder / "list.txt").write_text("vp9_webm/vp9_webm.webm\n\nh264_mp4/h264_mp4.mp4\n")
    done = run("index", folder / "rows.csv", folder / "list.txt", one, "-o", folder / "index.db", "--workers", 1)
    assert "2 indexed" in done.stdout, done.stderr
    assert [len(vl.IndexStore(folder / "index.db").get(path)) for path in (one, other)] == [60, 60]


def test_unreadable_files_are_listed_and_matter_only_to_the_strict(folder: Path) -> None:
    (folder / "vp9_webm" / "[b]text.mp4").write_text("no video")
    arguments = ("index", folder, "-o", folder / "index.db", "--workers", 1)
    done = run(*arguments)
    assert done.returncode == 0
    assert "1 unreadable" in done.stdout
    assert re.search(r"^unreadable: .*/vp9_webm/\[b\]text\.mp4: libavformat cannot read it", done.stdout, re.MULTILINE)
    assert run(*arguments, "--strict").returncode == 1
    (folder / "vp9_webm" / "[b]text.mp4").unlink()
    assert "1 vanished and forgotten" in run(*arguments, "--prune").stdout
    assert len(vl.IndexStore(folder / "index.db")) == 2


def test_info_tells_of_a_video(folder: Path) -> None:
    told = run("info", folder / "h264_mp4/h264_mp4.mp4").stdout
    for fact in ("h264 in mp4", "160×128", "60 in 2.400 s, 25.000 a second", "5 keyframes"):
        assert fact in told


@pytest.mark.parametrize("stored", [False, True])
def test_a_data_set_is_described(folder: Path, stored: bool) -> None:
    options = ("--index", folder / "index.db") if stored else ()
    if stored:
        run("index", folder, "-o", folder / "index.db", "--workers", 1)
    told = run("describe", folder, "--length", 4, "--stride", 2, *options).stdout
    for fact in ("2 in 2 rows, 2 classes", "120 frames", "h264 50 %", "160×128 100 %", "re-encode with GOP 12"):
        assert fact in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", "{0}/none", "-o", "{0}/index.db"), "none: there is no such file or folder"),
        (("index", "{0}", "-o", "{0}/none/index.db"), "cannot be written"),
        (("index", "{0}", "-o", "{0}/h264_mp4/h264_mp4.mp4"), "is not an index store"),
        (("info", "{0}/none.mp4"), "No such file"),
        (("describe", "{0}/none.csv"), "No such file"),
    ],
)
def test_errors_are_one_line(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run(*(argument.format(folder) for argument in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_package_can_be_run() -> None:
    done = subprocess.run([sys.executable, *SAFE_PATH, "-m", "videoloader", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "describe" in done.stdout


def test_without_typer_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import videoloader.cli"
    done = subprocess.run([sys.executable, *SAFE_PATH, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == "the videoloader command needs typer and rich: pip install 'videoloader[cli]'"
