"""videoloader preview: pictures of clips after a mode and transforms."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from commands import run, run_json

import videoloader as vl

Image = pytest.importorskip("PIL.Image")
Sample = Callable[[str], Path]
CPU = ("--device", "cpu")


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def test_a_contact_sheet_shows_the_frames_of_the_mode(sample: Sample, tmp_path: Path) -> None:
    told = run_json("preview", sample("h264_mp4"), "-o", tmp_path / "a.png", "--mode", "[0, 30, 59]", *CPU)
    (clip,) = told["clips"]
    assert clip["frame_numbers"] == [0, 30, 59]
    assert clip["timestamps"] == [0, 1.2, 2.36]
    one = run_json("preview", sample("h264_mp4"), "-o", tmp_path / "b.png", "--mode", "[0]", "--size", 160, *CPU)
    assert len(one["clips"]) == 1
    # A frame as large as it is coded stands in the sheet as it is.
    frame = vl.Video(sample("h264_mp4"), device="cpu")[0].permute(1, 2, 0).numpy().astype(int)
    sheet = pixels(tmp_path / "b.png")
    places = [
        (top, left)
        for top in range(sheet.shape[0] - 127)
        for left in range(sheet.shape[1] - 159)
        if (sheet[top, left : left + 160] == frame[0]).all()
    ]
    assert any((sheet[top : top + 128, left : left + 160] == frame).all() for top, left in places)


def test_transforms_are_shown_with_normalize_undone(sample: Sample, tmp_path: Path) -> None:
    options = ("--mode", "[0]", "--size", 64, *CPU)
    for name, transforms in (("a.png", "Resize((64, 64))"), ("b.png", "Resize((64, 64)), Normalize()")):
        run("preview", sample("h264_mp4"), "-o", tmp_path / name, *options, "--transforms", transforms)
    plain, undone = pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png")
    height = min(len(plain), 80)
    assert np.abs(plain[:height, :84] - undone[:height, :84]).max() <= 1


@pytest.mark.parametrize("ending", ["gif", "webp"])
def test_a_moving_picture_has_a_page_for_each_frame(sample: Sample, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"a.{ending}"
    run_json("preview", sample("h264_mp4"), "-o", file, "--mode", "RandomWindow(5, stride=5)", *CPU)
    with Image.open(file) as picture:
        assert picture.n_frames == 5
        picture.seek(1)
        picture.load()
        assert picture.info["duration"] == 200  # five frames of 25 a second
    run_json("preview", sample("h264_mp4"), "-o", file, "--mode", "RandomWindow(5)", "--fps", 2, *CPU)
    with Image.open(file) as picture:
        picture.seek(1)
        picture.load()
        assert picture.info["duration"] == 500


def test_clips_of_a_data_set_are_of_different_videos(folder: Path, broken: Path, tmp_path: Path) -> None:
    done = run("preview", folder, "-o", tmp_path / "a.png", "--mode", "RandomWindow(70)", "--frames", 4, *CPU)
    assert done.exit_code == 0, done.stderr
    assert "2 clips of RandomWindow(70)" in done.stdout
    assert f"left out: {broken}: libavformat" in done.stderr
    told = run_json("preview", folder, "-o", tmp_path / "a.jpg", "--mode", "RandomWindow(70)", "--clips", 2, *CPU)
    assert {Path(clip["path"]).name for clip in told["clips"]} == {"h264_mp4.mp4", "vp9_webm.webm"}
    assert [sum(clip["mask"]) for clip in told["clips"]] == [60, 60]


def test_the_seed_decides_what_is_random(sample: Sample, tmp_path: Path) -> None:
    def drawn(seed: int) -> list[int]:
        arguments = ("preview", sample("h264_mp4"), "-o", tmp_path / "a.png", "--mode", "RandomWindow(2)", *CPU)
        return run_json(*arguments, "--seed", seed)["clips"][0]["frame_numbers"]

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(4)}) > 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.bmp", (), "must end with .png"),
        ("none/a.png", (), "No such file or directory"),
        ("a.png", ("--mode", "[100]"), "outside"),
        ("a.png", ("--transforms", "Resize(-1)"), "Resize"),
    ],
)
def test_what_cannot_be_is_exit_code_2(
    sample: Sample, tmp_path: Path, name: str, options: tuple[str, ...], message: str
) -> None:
    done = run("preview", sample("h264_mp4"), "-o", tmp_path / name, *CPU, *options)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_picture_that_cannot_be_written_leaves_the_former_one(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(self: object, file: BinaryIO, *_: object, **__: object) -> None:
        file.write(b"part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Image.Image, "save", fill_the_disk)
    for name in ("a.png", "a.gif"):
        (tmp_path / name).write_bytes(b"before")
        done = run("preview", sample("h264_mp4"), "-o", tmp_path / name, *CPU)
        assert done.exit_code
        assert "No space left on device" in done.stderr
        assert (tmp_path / name).read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 2
