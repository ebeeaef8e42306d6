"""videoloader describe: what a data set holds."""

from __future__ import annotations

import io
import re
import shutil
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run, run_json
from PIL import Image
from sample_videos import Recipe, write_video

from videoloader.cli.dataset_page import ffmpeg_command


@pytest.mark.parametrize("stored", [False, True])
def test_a_data_set_is_described(folder: Path, stored: bool) -> None:
    options = ("--index", folder / "index.db") if stored else ()
    if stored:
        run("index", folder, "-o", folder / "index.db", "--workers", 1)
    told = run("describe", folder, "--mode", "RandomWindow(4, stride=2)", *options).stdout
    for fact in ("2 in 2 rows, 2 classes", "120 frames", "h264: 50 %", "160×128: 100 %", "re-encode with GOP 12"):
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


def test_the_page_needs_no_other_file(folder: Path, broken: Path, tmp_path: Path) -> None:
    file = tmp_path / "data.html"
    assert run("describe", folder, "--html", file, "--mode", "RandomWindow(4, stride=2)").exit_code == 0
    page = file.read_text("utf-8")
    for fact in ("160×128", "h264", "vp9", "RandomWindow(length=4, stride=2", "Segments(", "ffmpeg -i", "h264_mp4.mp4"):
        assert fact in page
    assert f"<td>{broken}</td><td>libavformat cannot read it" in page
    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    (image,) = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    with Image.open(io.BytesIO(b64decode(image))) as picture:
        assert picture.width > 400


def test_names_are_text_on_the_page(sample: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    shutil.copy(sample("h264_mp4"), tmp_path / "data" / "<script>alert(1)</script>.mp4".replace("/", "_"))
    assert run("describe", tmp_path / "data", "--html", tmp_path / "a.html").exit_code == 0
    assert "<script>" not in (tmp_path / "a.html").read_text("utf-8")


def test_nothing_readable_is_exit_code_1(broken: Path, tmp_path: Path) -> None:
    done = run("describe", broken, "--html", tmp_path / "a.html")
    assert done.exit_code == 1
    assert "Not usable: 1" in (tmp_path / "a.html").read_text("utf-8")


def test_copies_by_the_command_have_short_closed_gops(tmp_path: Path) -> None:
    words = ffmpeg_command().split()
    options = {words[at].removeprefix("-"): words[at + 1] for at in range(words.index("-crf"), len(words) - 1, 2)}
    x264 = {name: options[name] for name in ("crf", "g", "keyint_min", "sc_threshold", "bf", "x264-params")}
    copy = write_video(tmp_path / "copy.mp4", Recipe("mp4", "libx264", x264))
    told = run_json("info", copy, "--pictures", 60)
    assert (told["gops"]["longest"], told["gops"]["leading_frames"]) == (12, 0)
    assert "B" not in told["pictures"]["letters"]  # all of them can be skipped
    assert "b" in told["pictures"]["letters"]


def test_copies_are_advised_where_they_cost_less(sample: Callable[[str], Path], tmp_path: Path) -> None:
    long = write_video(tmp_path / "long.mp4", Recipe("mp4", "libx264", {"g": "60"}))
    assert f"copies       {ffmpeg_command()}\n" in run("describe", long, "--mode", "[50]").stdout
    assert "ffmpeg -i" not in run("describe", sample("mjpeg_mkv"), "--mode", "RandomWindow(1)").stdout
