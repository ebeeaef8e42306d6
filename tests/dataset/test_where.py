"""Rows chosen by facts in the indexes of their videos."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_videos import RECIPES, write_video

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ConfigurationError, NotIndexedError, SourceError
from videoloader.indexing import IndexStore, VideoIndex, build_index

NAMES = ("h264_mp4", "vp9_webm", "h264_mp4_vfr")
READABLE = (*NAMES, "turned")


@pytest.fixture(scope="module")
def folder(sample: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos, a file that is none, and their index store."""
    folder = tmp_path_factory.mktemp("where")
    for name in NAMES:
        shutil.copy(sample(name), folder)
    wide = write_video(folder / "turned.mp4", replace(RECIPES["h264_mp4"], size=(200, 96), frames=40))
    wide.write_bytes(turned(wide.read_bytes()))
    (folder / "text.mp4").write_text("no video")
    VideoDataset.from_folder(folder).build_store(folder / "index.db", workers=1)
    return folder


def turned(mp4: bytes) -> bytes:
    """The file with a matrix that turns its picture by 90 degrees (ISO/IEC 14496-12, 8.3.2)."""
    at = mp4.index(b"tkhd") + 4 + 40
    matrix = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 96 << 16, 0, 1 << 30)
    return mp4[:at] + matrix + mp4[at + len(matrix) :]


def chosen(data: VideoDataset, **conditions: Any) -> set[str]:
    return {Path(entry.path).stem for entry in data.where(**conditions)}


def expected(folder: Path, fulfils: Callable[[VideoIndex], bool]) -> set[str]:
    indexes = {path.stem: build_index(path) for path in folder.iterdir() if path.stem in READABLE}
    return {name for name, index in indexes.items() if fulfils(index)}


@pytest.mark.parametrize(
    ("conditions", "fulfils"),
    [
        ({"codec": "h264"}, lambda index: index.stream.codec == "h264"),
        ({"codec": ["VP9", "av1"]}, lambda index: index.stream.codec == "vp9"),
        ({"fps": 25}, lambda index: round(index.average_fps, 3) == 25),
        ({"fps": (25.01, 99)}, lambda index: 25.01 <= index.average_fps <= 99),
        ({"min_height": 129}, lambda index: index.stream.rotation == 90),
        ({"min_frames": 60}, lambda index: len(index) >= 60),
        (
            {"condition": "NOT is_vfr AND keyframes > 1 -- and no more"},
            lambda i: not i.is_vfr and i.packet_key.sum() > 1,
        ),
        ({"condition": "codec = 'vp9' OR is_vfr", "fps": (0, 1000)}, lambda i: i.stream.codec == "vp9" or i.is_vfr),
        ({}, lambda index: True),
    ],
)
def test_conditions_are_those_of_the_index(
    folder: Path, conditions: dict[str, Any], fulfils: Callable[[VideoIndex], bool]
) -> None:
    data = VideoDataset.from_folder(folder)
    names = expected(folder, fulfils)
    assert names, "the condition is to be tested on some video"
    assert chosen(data, store=folder / "index.db", **conditions) == names


def test_without_a_store_videos_are_indexed_now(folder: Path) -> None:
    assert chosen(VideoDataset.from_folder(folder), codec="vp9") == {"vp9_webm"}


def test_unreadable_videos_are_left_out_with_an_account(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"where: 1 of 5 rows are left out \(1 cannot be read\)"):
        data = VideoDataset.from_folder(folder).where(store=IndexStore(folder / "index.db"))
    ((path, reason),) = data.left_out
    assert path == str(folder / "text.mp4")
    assert "libavformat cannot read it" in reason


def test_frames_are_counted_in_the_rows_part_of_the_video(folder: Path) -> None:
    path = str(folder / "h264_mp4.mp4")
    rows = [
        VideoEntry(path, start=51),
        VideoEntry(path, start=50),
        VideoEntry(path, start=3, stop=13),
        VideoEntry(path, start=3, stop=12),
        VideoEntry(path, start=55, stop=70),
        VideoEntry(path, start_seconds=2.0),
        VideoEntry(path, start_seconds=2.04),
        VideoEntry(path, stop_seconds=0.4),
        VideoEntry(path, start_seconds=9.0),
    ]
    counts = r"where: 5 of 9 rows are left out \(3 with fewer than min_frames=10 frames, 2 beyond the video\)"
    with pytest.warns(UserWarning, match=counts):
        kept = VideoDataset(rows).where(store=folder / "index.db", min_frames=10)
    assert list(kept) == [rows[1], rows[2], rows[5], rows[7]]
    reasons = [reason for _, reason in kept.left_out]
    assert [reasons[place] for place in (0, 1, 3)] == ["9 frames, fewer than min_frames=10"] * 3
    assert reasons[2].startswith("no frames for start=55, stop=70; the video lasts 0–2.4 s, 60 frames")
    assert reasons[4].startswith("no frames for start_seconds=9.0; the video lasts 0–2.4 s, 60 frames")


def test_errors_say_what_to_do(folder: Path, sample: Callable[[str], Path]) -> None:
    data, store = VideoDataset.from_folder(folder), folder / "index.db"
    there = "the videos have codec h264, vp9; frames [0-9]+ to [0-9]+, fps .* to .*, height 128 to 200$"
    with pytest.raises(ConfigurationError, match=f"none of the 5 rows is left, .*; {there}"):
        data.where("frames > 1000000", store=store)
    with pytest.raises(ConfigurationError, match=r"no row is left, .*; no video can be read$"):
        VideoDataset.from_paths([str(folder / "text.mp4")]).where(store=store)
    facts = r"no such column: breadth \(text is written in single quotes\)\); these are .*duration_s, frames"
    with pytest.raises(ConfigurationError, match=rf"^condition 'breadth > 10' is not SQL over the facts .*{facts}"):
        data.where("breadth > 10", store=store, codec="h264")
    with pytest.raises(NotIndexedError, match=r"other.mp4: is not in the index store .*build_store"):
        (data + VideoDataset.from_paths([str(folder / "other.mp4")])).where(store=store, codec="h264")


@pytest.mark.parametrize("condition", ["codec = 'vp9') OR (codec = 'h264'", "1) OR (1", "1, 1", "1 AS x", "1 LIMIT 1"])
def test_a_condition_is_one_expression(folder: Path, condition: str) -> None:
    with pytest.raises(ConfigurationError, match="is not SQL over the facts of videos"):
        VideoDataset.from_store(folder / "index.db", where=condition)


@pytest.mark.parametrize("condition", ["count(*) > 0", "row_number() OVER () = 1", "frames = max(frames)"])
def test_functions_of_several_rows_are_no_conditions(folder: Path, condition: str) -> None:
    data = VideoDataset.from_store(folder / "index.db")
    with pytest.raises(ConfigurationError, match=r"is not SQL over the facts of videos .*misuse of"):
        data.where(condition, store=folder / "index.db")
    best = data.where("frames = (SELECT max(frames) FROM videos)", store=folder / "index.db")
    assert 0 < len(best) <= len(data)


def test_conditions_may_have_lines_brackets_and_comments(folder: Path, tmp_path: Path) -> None:
    condition = "codec IN (\n'h264' -- and no other\n)\nAND (frames > 0\n) -- all of them"
    found = VideoDataset.from_store(folder / "index.db", where=condition)
    assert [row.path for row in found] == [row.path for row in found.where(condition, store=folder / "index.db")]
    assert len(found) == 3
    IndexStore(folder / "index.db").to_csv(tmp_path / "some.csv", where=condition)
    assert len(VideoDataset.from_csv(tmp_path / "some.csv")) == 3


def test_rows_of_a_store_come_in_the_order_of_ids_whatever_these_are(folder: Path, tmp_path: Path) -> None:
    changed = shutil.copy(folder / "index.db", tmp_path / "index.db")
    with closing(sqlite3.connect(changed)) as connection, connection:
        connection.execute("UPDATE videos SET id = 1 - id")
    given = [
        [Path(row.path).name for row in VideoDataset.from_store(store)] for store in (folder / "index.db", changed)
    ]
    assert len(given[0]) == len(READABLE)
    assert given[1] == given[0][::-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"condition": lambda entry: True}, "condition must be SQL over facts of videos, .*filter takes a function"),
        ({"condition": "1; DROP TABLE videos"}, "condition '1; DROP TABLE videos' is not SQL"),
        ({"condition": "frames > 1) OR (frames > 2"}, r"condition 'frames > 1\) OR \(frames > 2' is not SQL"),
        ({"min_frames": "30"}, "min_frames must be a positive integer, got '30'"),
        ({"min_height": 0}, "min_height must be a positive integer, got 0"),
        ({"codec": 264}, "codec must be a name, as 'h264', or a list of names, got 264"),
        ({"fps": "30"}, "fps must be a number or a pair .*, got '30'"),
        ({"fps": (1, 2, 3)}, r"fps must be a number or a pair .*, got \(1, 2, 3\)"),
        ({"fps": (31, 23)}, r"fps must be \(lowest, highest\), got \(31, 23\): write \(23, 31\)"),
        ({"store": 5}, "store must be an IndexStore or the path of one, got 5"),
    ],
)
def test_arguments_of_a_wrong_kind_are_named(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        VideoDataset.from_folder(folder).where(**{"store": folder / "index.db", **arguments})


def test_a_temporary_store_needs_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "not there"))
    with pytest.raises(SourceError, match=r"can be made \(No such file or directory\): give store=, or set TMPDIR"):
        VideoDataset.from_folder(folder).where(min_frames=3)
