"""verify: sound files pass, and for others it says why and where they fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from archive_writing import zip_bytes
from image_files import write_frames
from lies import LIES

import videoloader as vl
from videoloader.verification import checks as verification_checks

Sample = Callable[[str], Path]
SOUND = ["h264_mp4_open_gop", "h264_ts", "hevc_mkv", "vp9_webm", "mpeg4_avi", "mpeg2_ts", "mjpeg_mkv"]


def verify(source: object, **settings: object) -> vl.VerifyReport:
    return vl.verify(source, **({"device": "cpu"} | settings))


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_file_is_in_order(name: str, sample: Sample) -> None:
    report = verify(sample(name))
    (file,) = report.files
    assert report.ok
    assert file.ok, str(file)
    assert (file.frames, file.decoded, file.damaged, file.faults) == (60, 60, (), ())
    assert file.keyframes >= 3
    assert str(file).endswith(f"ok: 60 frames, {file.keyframes} keyframes, {file.codec} in {file.container}")


@pytest.mark.parametrize("nothing", [[], (), set()])
def test_nothing_is_not_in_order(nothing: object) -> None:
    with pytest.raises(vl.ConfigurationError, match=r"source must be at least one video, got .*: nothing would be"):
        verify(nothing)


def test_what_is_flagged_wrongly_is_told_and_does_no_harm(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "all_key.mp4"
    path.write_bytes(LIES["stss_all"].tell(sample("h264_mp4").read_bytes(), 0))
    (file,) = verify(path).files
    assert file.ok, str(file)
    assert file.keyframes == verify(sample("h264_mp4")).files[0].keyframes


@pytest.mark.parametrize("stream", ["", "::stream_index=0"])
def test_changed_bytes_of_a_zip_are_told_by_their_checksum(sample: Sample, tmp_path: Path, stream: str) -> None:
    path = f"{tmp_path}/x.zip"
    content = zip_bytes({"clip.mp4": sample("h264_mp4").read_bytes()})
    Path(path).write_bytes(content)
    assert verify(f"{path}::clip.mp4{stream}").ok
    at = content.index(b"udta")  # notes on the file, which nobody decodes
    Path(path).write_bytes(content[: at + 20] + bytes([content[at + 20] ^ 1]) + content[at + 21 :])
    (file,) = verify(f"{path}::clip.mp4{stream}").files
    assert [fault.kind for fault in file.faults] == ["checksum"], str(file)
    assert "clip.mp4" in str(file)
    assert "do not match the checksum stored in the archive" in str(file)


def test_damage_is_told_with_its_frames(sample: Sample, tmp_path: Path) -> None:
    data = bytearray(sample("h264_mp4").read_bytes())
    index = vl.build_index(bytes(data))
    packet = int(index.frame_packet[30])
    start = int(index.packet_offset[packet])
    data[start + 12 : start + int(index.packet_size[packet])] = bytes(int(index.packet_size[packet]) - 12)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    (file,) = verify(path).files
    assert not file.ok
    assert any(first <= 30 <= last for first, last in file.damaged)
    assert "damaged: frames" in str(file)


def test_an_index_that_is_wrong_is_found_out(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    true = vl.build_index(sample("h264_mp4"))
    swapped = true.frame_packet.copy()
    swapped[[20, 21]] = swapped[[21, 20]]
    later = true.frame_pts.copy()
    later[40:42] += 1
    wrong = replace(true, frame_packet=swapped[:59], frame_pts=later[:59])
    monkeypatch.setattr(verification_checks, "build_index", lambda source: wrong)
    (file,) = verify(sample("h264_mp4")).files
    found = {fault.kind: fault.frames for fault in file.faults}
    assert found["times"] == ((40, 41),)
    assert found["pictures"] == ((20, 21),)
    assert "count" in found
    pictures = [fault.message for fault in file.faults if fault.kind == "pictures"]
    assert any("keyframe" in message for message in pictures)
    assert any("in one thread" in message for message in pictures)
    assert any("threads" in message for message in pictures)


def test_a_keyframe_that_is_none_is_found_out(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container's word is believed here, as for a codec whose headers nobody reads.

    MPEG-4's decoder makes a picture of what refers to nothing. Where that is an error, decoding starts earlier.
    """
    true = vl.build_index(sample("mpeg4_mkv"))
    key = true.packet_key.copy()
    key[true.frame_packet[30]] = True
    monkeypatch.setattr(verification_checks, "build_index", lambda source: true.with_keyframes(key))
    monkeypatch.setattr("videoloader.packets.run_start.is_random_access", lambda *_: True)
    (file,) = verify(sample("mpeg4_mkv")).files
    assert not file.ok
    assert any(first <= 30 <= last for fault in file.faults for first, last in fault.frames)


def test_unreadable_files_are_part_of_the_report(sample: Sample, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    (tmp_path / "good.mp4").write_bytes(sample("h264_mp4").read_bytes())
    report = verify([tmp_path / "text.mp4", tmp_path / "good.mp4", tmp_path / "gone.mp4"], workers=2)
    assert [file.ok for file in report.files] == [False, True, False]
    assert report.files[0].faults[0].kind == report.files[2].faults[0].kind == "unreadable"
    assert not report.ok
    assert not report
    assert [bool(file) for file in report.files] == [False, True, False]
    assert str(report).startswith("3 videos, 60 frames: 2 not ok\n")


def test_a_folder_is_verified_in_processes_with_progress(sample: Sample, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"clip{number}.mp4").write_bytes(sample("h264_mp4").read_bytes())
    seen: list[tuple[int, int]] = []
    report = verify(tmp_path, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert report.ok
    assert [Path(file.source).name for file in report.files] == ["clip0.mp4", "clip1.mp4", "clip2.mp4"]
    assert seen == [(1, 3), (2, 3), (3, 3)]
    data = vl.VideoDataset.from_paths([tmp_path / "clip1.mp4"] * 2)
    assert len(verify(data).files) == 1


def test_processes_verify_from_a_folder_that_was_deleted(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert verify([sample("h264_ts"), sample("mjpeg_mkv")], workers=2).ok


def test_bytes_and_folders_of_images_are_verified_too(sample: Sample, tmp_path: Path) -> None:
    assert verify(sample("h264_mp4").read_bytes()).ok
    write_frames(tmp_path, ["a1.png", "a2.png", "a3.png"])
    assert verify(tmp_path).files[0].frames == 3
    assert verify(tmp_path).ok


def test_a_report_is_json(sample: Sample) -> None:
    report = verify(sample("h264_mp4"))
    told = json.loads(report.to_json())
    with pytest.raises(
        vl.ConfigurationError, match=r"to_json's indent must be an integer in \[0, 100\], got 9223372036"
    ):
        report.to_json(indent=1 << 63)
    assert told["ok"] is True
    assert told["files"][0]["frames"] == 60
    assert told == json.loads(json.dumps(report.to_dict()))


def test_numbers_must_be_positive(sample: Sample) -> None:
    for name in ("workers", "threads"):
        with pytest.raises(vl.ConfigurationError, match=name):
            verify(sample("h264_mp4"), **{name: 0})


def test_frames_are_compared_by_prints_alone() -> None:
    one = np.full((3, 9, 16), 100, np.uint8)
    assert verification_checks._alike(one, one + 6)
    assert not verification_checks._alike(one, one + 7)
