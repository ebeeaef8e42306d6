"""videoloader index: what it writes and prints, and its exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from commands import run, run_json
from image_files import write_frames

import videoloader as vl


def test_a_folder_becomes_a_store(folder: Path) -> None:
    store = folder / "index.db"
    done = run("index", folder, "-o", store, "--workers", 1)
    assert done.exit_code == 0, done.stderr
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


def test_a_list_may_begin_with_a_byte_order_mark_and_names_may_hold_other_line_breaks(folder: Path) -> None:
    odd = "a\u2028b\u0085.mp4"
    (folder / odd).write_bytes((folder / "h264_mp4/h264_mp4.mp4").read_bytes())
    (folder / "list.txt").write_bytes(f"vp9_webm/vp9_webm.webm\r\n{odd}\n".encode("utf-8-sig"))
    done = run("index", folder / "list.txt", "-o", folder / "index.db", "--workers", 1)
    assert "2 indexed" in done.stdout, done.stderr


@pytest.mark.parametrize("command", ["index", "verify"])
@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_a_list_must_be_a_file(tmp_path: Path, command: str, kind: str) -> None:
    if kind == "FIFO":
        os.mkfifo(tmp_path / "list.txt")
    else:
        (tmp_path / "list.txt").symlink_to("/dev/zero")
    output = ["-o", tmp_path / "index.db"] if command == "index" else []
    done = run(command, tmp_path / "list.txt", *output)
    assert done.exit_code == 2
    assert f"list.txt: the list cannot be read (Is a {kind}, not a file)" in done.stderr


def test_folders_of_splits_and_videos_beside_folders_are_nothing_to_warn_of(folder: Path) -> None:
    (folder / "h264_mp4").rename(folder / "train")
    (folder / "vp9_webm").rename(folder / "val")
    done = run("index", folder, "-o", folder / "index.db", "--workers", 1)
    assert ("2 indexed" in done.stdout, done.stderr) == (True, "")
    (folder / "train/h264_mp4.mp4").rename(folder / "h264_mp4.mp4")
    (folder / "val/more.webm").write_bytes((folder / "val/vp9_webm.webm").read_bytes())
    (folder / "val/most.webm").write_bytes((folder / "val/vp9_webm.webm").read_bytes())
    done = run("index", folder, "-o", folder / "index.db", "--workers", 1)
    assert ("3 indexed" in done.stdout, done.stderr) == (True, "")


def test_the_largest_size_is_that_of_one_video(tmp_path: Path) -> None:
    for name, size in (("wide", (96, 32)), ("tall", (32, 64)), ("small", (16, 16))):
        write_frames(tmp_path, [f"{name}.png"], size=size)
    store, images = tmp_path / "index.db", sorted(tmp_path.glob("*.png"))
    assert "96×32" in run("index", *images, "-o", store, "--workers", 1).stdout
    (codec,) = run_json("info", store)["codecs"]
    assert (codec["width"], codec["height"]) == (96, 32)


def test_root_is_where_relative_paths_of_tables_and_lists_start(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("path,label\nh264_mp4/h264_mp4.mp4,1\n")
    (tmp_path / "list.txt").write_text("vp9_webm/vp9_webm.webm\n")
    store = tmp_path / "index.db"
    told = run_json("index", tmp_path / "rows.csv", tmp_path / "list.txt", "--root", folder, "-o", store)
    assert told["indexed"] == 2
    assert run("index", tmp_path / "rows.csv", "-o", store).exit_code == 1


def test_the_store_keeps_paths_relative_to_its_own_root(folder: Path, tmp_path: Path) -> None:
    run("index", folder, "-o", tmp_path / "index.db", "--store-root", folder, "--workers", 1)
    moved = vl.IndexStore(tmp_path / "index.db", root="/elsewhere")
    assert sorted(moved.query("SELECT source FROM videos")) == [("h264_mp4/h264_mp4.mp4",), ("vp9_webm/vp9_webm.webm",)]


def test_unreadable_files_are_listed_and_matter_only_to_the_strict(folder: Path, broken: Path) -> None:
    arguments = ("index", folder, "-o", folder / "index.db", "--workers", 1)
    done = run(*arguments)
    assert done.exit_code == 0
    assert "1 unreadable" in done.stdout
    assert re.search(r"^unreadable: .*/vp9_webm/\[b\]text\.mp4: libavformat cannot read it", done.stdout, re.MULTILINE)
    assert run(*arguments, "--strict").exit_code == 1
    broken.unlink()
    assert "1 vanished and forgotten" in run(*arguments, "--prune").stdout
    assert len(vl.IndexStore(folder / "index.db")) == 2


def test_it_ends_with_1_if_nothing_can_be_indexed(folder: Path, broken: Path) -> None:
    arguments = ("index", broken, "-o", folder / "index.db")
    assert run(*arguments).exit_code == 1
    assert run(*arguments).exit_code == 1  # known by now
    assert run(*arguments, folder / "h264_mp4/h264_mp4.mp4").exit_code == 0


def test_json_tells_what_was_done(folder: Path, broken: Path) -> None:
    done = run("index", folder, "-o", folder / "index.db", "--workers", 1, "--strict", "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["indexed"], told["unchanged"], told["vanished"]) == (2, 0, [])
    ((path, reason),) = told["unreadable"]
    assert path == str(broken)
    assert "libavformat cannot read it" in reason
