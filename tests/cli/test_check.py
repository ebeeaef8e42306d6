"""videoloader check: what it finds, writes and prints, and how it resumes after an interruption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run, run_json

from videoloader.verification import verify_source
from videoloader.verification.report import FileReport


def test_sound_videos_are_exit_code_0(folder: Path) -> None:
    done = run("check", folder, "--device", "cpu", "--workers", 1)
    assert done.exit_code == 0, done.stderr
    assert "2 videos, 120 frames: 0 not ok" in done.stdout
    assert run("verify", folder / "h264_mp4/h264_mp4.mp4", "--device", "cpu").exit_code == 0  # the name of before


def test_a_file_that_is_wrong_is_told_and_exit_code_1(folder: Path, broken: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run("check", folder, "--device", "cpu", "--workers", 1, "-o", report)
    assert done.exit_code == 1
    assert f"{broken}: NOT OK: not read" in done.stdout
    assert "unreadable" in done.stdout
    told = json.loads(report.read_text())
    assert (told["ok"], told["complete"], told["device"]) == (False, True, "cpu")
    assert {Path(file["path"]).name: file["ok"] for file in told["files"]} == {
        "h264_mp4.mp4": True,
        "vp9_webm.webm": True,
        "[b]text.mp4": False,
    }


def test_the_readable_videos_of_a_store_are_checked(folder: Path, broken: Path) -> None:
    run("index", folder, "-o", folder / "index.db", "--workers", 1)
    told = run_json("check", folder / "index.db", "--device", "cpu", "--workers", 1)
    assert [Path(file["path"]).name for file in told["files"]] == ["h264_mp4.mp4", "vp9_webm.webm"]


def test_json_is_the_report(folder: Path) -> None:
    told = run_json("check", folder, "--device", "cpu", "--workers", 1)
    assert told["ok"]
    assert [file["decoded"] for file in told["files"]] == [60, 60]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are decoded."""
    names: list[str] = []
    verify = verify_source.verify_file

    def noted(source: Any, *arguments: Any) -> FileReport:
        names.append(Path(source).name)
        return verify(source, *arguments)

    monkeypatch.setattr(verify_source, "verify_file", noted)
    return names


def test_it_goes_on_where_it_was_interrupted(
    folder: Path, tmp_path: Path, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("check", folder, "--device", "cpu", "--workers", 1, "-o", tmp_path / "report.json")
    each = verify_source.verify_each

    def interrupted(*arguments: Any) -> Iterator[tuple[int, FileReport]]:
        yield next(each(*arguments))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(verify_source, "verify_each", interrupted)
        done = run(*command)
    assert done.exit_code == 130
    assert "continue with --resume" in done.stderr
    assert not json.loads((tmp_path / "report.json").read_text())["complete"]
    told = run(*command, "--resume", "--json")
    assert told.exit_code == 0
    assert "1 of 2 were checked before" in told.stderr
    assert [file["ok"] for file in json.loads(told.stdout)["files"]] == [True, True]
    assert checked == ["h264_mp4.mp4", "vp9_webm.webm"]


def test_a_file_that_has_changed_is_checked_again(folder: Path, tmp_path: Path, checked: list[str]) -> None:
    command = ("check", folder, "--device", "cpu", "--workers", 1, "-o", tmp_path / "report.json", "--resume")
    run(*command)
    run(*command)
    assert len(checked) == 2
    os.utime(folder / "vp9_webm/vp9_webm.webm", (1, 1))
    run(*command)
    assert checked[2:] == ["vp9_webm.webm"]
    # What was wrong before is still wrong.
    (folder / "h264_mp4" / "h264_mp4.mp4").write_text("no video")
    assert run(*command).exit_code == 1
    assert run(*command).exit_code == 1
    assert checked[3:] == ["h264_mp4.mp4"]


def test_another_device_or_version_checks_all_again(folder: Path, tmp_path: Path, checked: list[str]) -> None:
    report = tmp_path / "report.json"
    command = ("check", folder, "--device", "cpu", "--workers", 1, "-o", report, "--resume")
    run(*command)
    told = json.loads(report.read_text())
    report.write_text(json.dumps(told | {"device": "cuda:0"}))
    run(*command)
    assert len(checked) == 4


@pytest.mark.parametrize("text", ["no JSON", "{}", '{"videoloader": 1}', "[]"])
def test_what_is_no_report_is_left_alone(folder: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.json").write_text(text)
    done = run("check", folder, "-o", tmp_path / "notes.json", "--resume")
    assert done.exit_code == 2
    assert "is no report of videoloader check" in done.stderr
    assert (tmp_path / "notes.json").read_text() == text


def test_resuming_needs_a_report(folder: Path) -> None:
    done = run("check", folder, "--resume")
    assert (done.exit_code, "--output" in done.stderr) == (2, True)


def test_root_is_where_relative_paths_of_a_table_start(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("path,label\nh264_mp4/h264_mp4.mp4,1\nh264_mp4/h264_mp4.mp4,1\n")
    told = run_json("check", tmp_path / "rows.csv", "--root", folder, "--device", "cpu")
    assert [file["path"] for file in told["files"]] == [str(folder / "h264_mp4/h264_mp4.mp4")]
    shutil.rmtree(folder)
    assert run("check", tmp_path / "rows.csv", "--root", folder, "--device", "cpu").exit_code == 1
