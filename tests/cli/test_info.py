"""videoloader info: the facts of a video and of a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commands import run, run_json
from image_files import write_frames

from videoloader.cli import terminal
from videoloader.indexing import build_index

Sample = Callable[[str], Path]


def test_a_video_is_told_in_facts(folder: Path) -> None:
    told = run("info", folder / "h264_mp4/h264_mp4.mp4").stdout
    for fact in ("h264 in mp4", "0: video h264", "160×128", "60 in 2.400 s, 25.000 a second", "5 keyframes", "closed"):
        assert fact in told


def test_json_has_the_facts_of_the_index(sample: Sample) -> None:
    told, index = run_json("info", sample("mpeg2_ts")), build_index(sample("mpeg2_ts"))
    assert (told["codec"], told["container"], told["frames"]) == ("mpeg2video", index.container, len(index))
    assert (told["width"], told["height"], told["rotation"]) == (160, 128, 0)
    assert told["start_time_s"] == index.start_time / 1e6 > 0
    assert told["gops"]["longest"] == 12
    assert [(each["kind"], each["codec"]) for each in told["streams"]] == [("video", "mpeg2video")]


@pytest.mark.parametrize(
    ("name", "display", "decode"),
    [
        # Three B pictures in a row, of which the middle one is referred to.
        ("h264_mp4", "|IbBbPbBbPBbP|IbBb", "|IPBbbPBbbPBb|IPBb"),
        ("h264_mp4_open_gop", "|IbBbPbBbPbBb|IbBb", "|IPBbbPBbb|IBbbPBb"),
        ("hevc_mkv", "|IbBbPbBbPbBb|IbBb", "|IPBbbPBbb|IBbbPBb"),
        ("mpeg2_ts", "|IbbPbbPbbPbb|IbbP", "|IPbbPbbPbb|IbbPbb"),
        ("mjpeg_mkv", "|I|I|I|I|I|I|I|I|", "|I|I|I|I|I|I|I|I|"),
    ],
)
def test_the_strip_shows_the_kinds_of_pictures(name: str, display: str, decode: str, sample: Sample) -> None:
    for order, letters in (("display", display), ("decode", decode)):
        told = run_json("info", sample(name), "--order", order, "--pictures", len(letters))
        assert told["pictures"] == {"order": order, "letters": letters, "error": ""}


def test_the_strip_is_as_wide_as_the_terminal(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.out, "_width", 50)
    lines = run("info", sample("h264_mp4")).stdout.splitlines()
    (strip,) = [line for line in lines if line.startswith("|I")]
    assert len(strip) == 50
    assert all(len(line) <= 50 for line in lines)


def test_pictures_that_do_not_decode_are_told(sample: Sample, tmp_path: Path) -> None:
    index = build_index(sample("h264_mp4"))
    data = bytearray(sample("h264_mp4").read_bytes())
    begin, size = index.packet_range(14)
    data[begin : begin + size] = bytes(size)
    (tmp_path / "damaged.mp4").write_bytes(data)
    told = run_json("info", tmp_path / "damaged.mp4", "--order", "decode")["pictures"]
    assert told["letters"].startswith("|IPBbbPBbbPBb|I")
    assert "?" in told["letters"]
    assert told["error"]


def test_the_cost_of_usual_modes_is_told(sample: Sample) -> None:
    costs = {each["mode"]: each for each in run_json("info", sample("mjpeg_mkv"))["cost"]}
    assert {each["packets_per_frame"] for each in costs.values()} == {1.0}
    assert costs["RandomWindow(16, stride=4)"]["packets_per_clip"] == 16
    assert costs["Keyframes()"]["packets_per_clip"] == 60
    # One frame at random of a GOP of twelve, disposable pictures left out.
    alone = next(each for each in run_json("info", sample("h264_mp4"))["cost"] if each["mode"] == "RandomWindow(1)")
    assert 2 < alone["packets_per_frame"] <= 12


def test_nvdec_is_asked_where_there_is_a_gpu(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_json("info", sample("h264_mp4"))["nvdec"] == {
        "takes": None,
        "reason": "PyTorch finds no CUDA device here",
    }
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("videoloader.runtime.device.resolve_device", lambda _: torch.device("cuda", 0))
    told = run_json("info", sample("mjpeg_mkv"))["nvdec"]
    assert told == {"takes": False, "reason": "NVDEC does not know mjpeg"}


def test_a_folder_of_images_is_a_video(tmp_path: Path) -> None:
    write_frames(tmp_path, ["a1.png", "a2.png", "a3.png"])
    told = run_json("info", tmp_path)
    assert (told["frames"], told["streams"]) == (3, [])


def test_a_store_is_told_by_codec(folder: Path, broken: Path) -> None:
    run("index", folder, "-o", folder / "index.db", "--workers", 1)
    told = run_json("info", folder / "index.db")
    assert (told["videos"], told["unreadable"], told["frames"]) == (2, 1, 120)
    assert {each["codec"]: each["videos"] for each in told["codecs"]} == {"h264": 1, "vp9": 1}
