"""HMDB51: one split file for each class, with 0, 1 or 2 on each line."""

from __future__ import annotations

from pathlib import Path

import pytest
from published import write

from videoloader.errors import ConfigurationError, SourceError
from videoloader.layouts import hmdb51

# The published files end their lines with a space.
SPLITS = {
    "splits/wave_test_split1.txt": "20060723sfjffangelina_wave_f_cm_np1_fr_med_0.avi 1 \nb_wave_0.avi 2 \n",
    "splits/wave_test_split2.txt": "b_wave_0.avi 1 \n",
    "splits/brush_hair_test_split1.txt": "a_brush_hair_0.avi 0 \nb_brush_hair_0.avi 1 \nc_brush_hair_0.avi 2 \n",
}
VIDEOS = [
    "brush_hair/a_brush_hair_0.avi",
    "brush_hair/b_brush_hair_0.avi",
    "brush_hair/c_brush_hair_0.avi",
    "wave/20060723sfjffangelina_wave_f_cm_np1_fr_med_0.avi",
    "wave/b_wave_0.avi",
]


@pytest.mark.parametrize(("part", "rows"), [("train", [1, 3]), ("test", [2, 4]), ("unused", [0])])
def test_marks_choose_the_part(tmp_path: Path, part: str, rows: list[int]) -> None:
    write(tmp_path, {**SPLITS, **dict.fromkeys(f"videos/{video}" for video in VIDEOS)})
    data = hmdb51(tmp_path / "splits", tmp_path / "videos", part=part)
    assert [entry.path for entry in data] == [str(tmp_path / "videos" / VIDEOS[row]) for row in rows]
    assert [entry.label for entry in data] == [int(VIDEOS[row].startswith("wave")) for row in rows]
    assert data.class_names == ("brush_hair", "wave")


def test_another_split_has_its_own_files(tmp_path: Path) -> None:
    write(tmp_path, {**SPLITS, **dict.fromkeys(f"videos/{video}" for video in VIDEOS)})
    assert len(hmdb51(tmp_path / "splits", tmp_path / "videos", split=2)) == 1
    with pytest.raises(ConfigurationError, match=r"no file in this folder ends with _test_split3\.txt"):
        hmdb51(tmp_path / "splits", tmp_path / "videos", split=3)


def test_missing_videos_are_counted(tmp_path: Path) -> None:
    write(tmp_path, {**SPLITS, f"videos/{VIDEOS[1]}": None})
    with pytest.raises(SourceError, match=f"{VIDEOS[3]}: this video and 0 more of 2"):
        hmdb51(tmp_path / "splits", tmp_path / "videos")
    assert len(hmdb51(tmp_path / "splits", tmp_path / "videos", missing="skip")) == 1


@pytest.mark.parametrize("line", ["a_wave_0.avi", "a_wave_0.avi 3", "1"])
def test_nonsense_is_an_error_that_names_file_and_line(tmp_path: Path, line: str) -> None:
    file = "splits/wave_test_split1.txt"
    write(tmp_path, {**SPLITS, file: f"b_wave_0.avi 1\n{line}\n", **dict.fromkeys(f"videos/{v}" for v in VIDEOS)})
    with pytest.raises(
        ConfigurationError, match=f"^{tmp_path / file}: line 2: '{line}' is not a file name followed by 0, 1 or 2"
    ):
        hmdb51(tmp_path / "splits", tmp_path / "videos")
    with pytest.raises(ConfigurationError, match="part must be one of train, test, unused, got 'val'"):
        hmdb51(tmp_path / "splits", tmp_path / "videos", part="val")
