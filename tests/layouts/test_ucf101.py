"""UCF101: split files and classInd.txt as published."""

from __future__ import annotations

from pathlib import Path

import pytest
from published import write

from videoloader.errors import ConfigurationError, SourceError
from videoloader.layouts import ucf101

CLASSES = "1 ApplyEyeMakeup\n2 Archery\n3 YoYo\n"
TRAIN = "ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1\nYoYo/v_YoYo_g25_c05.avi 3\n"
TEST = "Archery/v_Archery_g01_c01.avi\r\nYoYo/v_YoYo_g01_c02.avi\r\n"
LISTS = {"lists/classInd.txt": CLASSES, "lists/trainlist01.txt": TRAIN, "lists/testlist01.txt": TEST}
VIDEOS = [line.split()[0] for line in (TRAIN + TEST).splitlines()]


def test_train_and_test_lists_agree_on_labels(tmp_path: Path) -> None:
    write(tmp_path, {**LISTS, **dict.fromkeys(f"UCF-101/{video}" for video in VIDEOS)})
    train = ucf101(tmp_path / "lists/trainlist01.txt", tmp_path / "UCF-101")
    test = ucf101(tmp_path / "lists/testlist01.txt", tmp_path / "UCF-101")
    assert train.class_names == test.class_names == ("ApplyEyeMakeup", "Archery", "YoYo")
    assert [entry.label for entry in train] == [0, 2]
    assert [entry.label for entry in test] == [1, 2]
    assert [entry.path for entry in test] == [str(tmp_path / "UCF-101" / video) for video in VIDEOS[2:]]
    assert train[1].columns == {"group": "v_YoYo_g25", "split_path": "YoYo/v_YoYo_g25_c05.avi"}


def test_videos_may_have_been_re_encoded_into_one_folder(tmp_path: Path) -> None:
    places = [f"flat/{Path(video).stem}.mp4" for video in VIDEOS[:2]]
    write(tmp_path, {**LISTS, "classes.txt": CLASSES, **dict.fromkeys(places)})
    data = ucf101(tmp_path / "lists/trainlist01.txt", tmp_path / "flat", classes=tmp_path / "classes.txt")
    assert [entry.path for entry in data] == [str(tmp_path / place) for place in places]


def test_missing_videos_are_counted(tmp_path: Path) -> None:
    write(tmp_path, {**LISTS, f"UCF-101/{VIDEOS[0]}": None})
    with pytest.raises(SourceError, match=f"{VIDEOS[1]}: this video and 0 more of 2"):
        ucf101(tmp_path / "lists/trainlist01.txt", tmp_path / "UCF-101")
    assert len(ucf101(tmp_path / "lists/trainlist01.txt", tmp_path / "UCF-101", missing="skip").left_out) == 1


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("trainlist01.txt", TRAIN + "YoYo/a.avi 2\n", "line 3: '2' is not the number of YoYo"),
        ("trainlist01.txt", TRAIN + "\nYo/a.avi 2\n", "line 4: 'Yo/a.avi' is not class/video with a known class"),
        ("trainlist01.txt", TRAIN + "YoYo 3\n", "line 3: 'YoYo' is not class/video"),
        ("trainlist01.txt", "", "the list has no videos"),
        ("classInd.txt", "1 ApplyEyeMakeup\n3 YoYo\n", "line 2: '3 YoYo' is not 2 followed by a name"),
        ("classInd.txt", "1 ApplyEyeMakeup\n2\n", "line 2: '2' is not 2 followed by a name"),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_line(tmp_path: Path, file: str, content: str, message: str) -> None:
    write(tmp_path, {**LISTS, f"lists/{file}": content, **dict.fromkeys(f"UCF-101/{video}" for video in VIDEOS)})
    with pytest.raises(ConfigurationError, match=f"^{tmp_path / 'lists' / file}: .*{message}"):
        ucf101(tmp_path / "lists/trainlist01.txt", tmp_path / "UCF-101")
