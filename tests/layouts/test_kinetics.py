"""Kinetics: lists as DeepMind publishes them, and videos named as in common copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from published import write

from videoloader.errors import ConfigurationError, SourceError
from videoloader.layouts import kinetics

LIST = (
    "label,youtube_id,time_start,time_end,split\n"
    "testifying,---QUuC4vJs,84,94,validate\n"
    '"petting animal (not cats)",--3ouPhoy2A,20,30,validate\n'
    "air drumming,--4-0ihtnBU,58,68,validate\n"
)
CLIPS = ("---QUuC4vJs_000084_000094", "--3ouPhoy2A_000020_000030", "--4-0ihtnBU_000058_000068")
CLASSES = ("air drumming", "petting animal (not cats)", "testifying")


@pytest.mark.parametrize(
    "places",
    [
        [f"val/{name}/{clip}.mp4" for clip, name in zip(CLIPS, ("testifying", CLASSES[1], CLASSES[0]), strict=True)],
        [f"val/{clip}.mp4" for clip in CLIPS],
        ["val/testifying/" + CLIPS[0] + ".mkv", "val/petting_animal/" + CLIPS[1] + ".webm", f"val/x/y/{CLIPS[2]}.avi"],
    ],
    ids=["class folders", "one folder", "other names of folders and endings"],
)
def test_clips_are_found_by_id_and_times(tmp_path: Path, places: list[str]) -> None:
    write(tmp_path, {"val.csv": LIST, **dict.fromkeys(places)})
    data = kinetics(tmp_path / "val.csv", tmp_path / "val")
    assert data.class_names == CLASSES
    assert [(entry.path, entry.label) for entry in data] == [
        (str(tmp_path / place), label) for place, label in zip(places, (2, 1, 0), strict=True)
    ]
    assert {(entry.start_seconds, entry.stop_seconds) for entry in data} == {(None, None)}
    expected = {"youtube_id": "---QUuC4vJs", "time_start": 84.0, "time_end": 94.0, "split": "validate"}
    assert data[0].columns == expected


def test_of_a_whole_video_the_row_is_what_lies_between_its_times(tmp_path: Path) -> None:
    write(tmp_path, {"val.csv": LIST, **dict.fromkeys([f"val/{clip[:11]}.mp4" for clip in CLIPS])})
    data = kinetics(tmp_path / "val.csv", tmp_path / "val")
    assert [(entry.start_seconds, entry.stop_seconds) for entry in data] == [(84, 94), (20, 30), (58, 68)]


def test_of_two_copies_the_one_in_the_folder_of_the_class_counts(tmp_path: Path) -> None:
    places = [f"val/{folder}/{CLIPS[2]}.mp4" for folder in ("a", "air_drumming", "z")]
    write(tmp_path, {"val.csv": LIST.splitlines()[0] + "\n" + LIST.splitlines()[3], **dict.fromkeys(places)})
    assert kinetics(tmp_path / "val.csv", tmp_path / "val")[0].path == str(tmp_path / places[1])


def test_a_test_list_has_no_labels(tmp_path: Path) -> None:
    text = "youtube_id,time_start,time_end,split\n---QUuC4vJs,84,94,test\n"
    write(tmp_path, {"test.csv": text, **dict.fromkeys([f"test/{CLIPS[0]}.mp4"])})
    data = kinetics(tmp_path / "test.csv", tmp_path / "test")
    assert (data[0].label, data.class_names) == (None, ())


def test_the_json_lists_say_the_same(tmp_path: Path) -> None:
    listed = {
        "---QUuC4vJs": {
            "annotations": {"label": "testifying", "segment": [84.0, 94.0]},
            "duration": 10.0,
            "subset": "validate",
            "url": "https://www.youtube.com/watch?v=---QUuC4vJs",
        }
    }
    write(tmp_path, {"val.json": listed, **dict.fromkeys([f"val/testifying/{CLIPS[0]}.mp4"])})
    data = kinetics(tmp_path / "val.json", tmp_path / "val")
    assert data[0].columns["split"] == "validate"
    assert data.class_names == ("testifying",)
    # A part of the classes, with the numbers that training gave them.
    data = kinetics(tmp_path / "val.json", tmp_path / "val", class_names=CLASSES)
    assert (data[0].label, data.class_names) == (2, CLASSES)


def test_lost_videos_are_an_error_or_left_out_with_an_account(tmp_path: Path) -> None:
    kept, lost = f"val/testifying/{CLIPS[0]}.mp4", tmp_path / "val" / CLASSES[1] / f"{CLIPS[1]}.mp4"
    write(tmp_path, {"val.csv": LIST, **dict.fromkeys([kept])})
    with pytest.raises(SourceError) as caught:
        kinetics(tmp_path / "val.csv", tmp_path / "val")
    assert caught.value.source == str(lost)
    assert f"and 1 more of 3 in {tmp_path / 'val.csv'} do not exist; missing='skip'" in str(caught.value)
    data = kinetics(tmp_path / "val.csv", tmp_path / "val", missing="skip")
    assert [entry.path for entry in data] == [str(tmp_path / kept)]
    assert data.class_names == CLASSES
    assert [path for path, _ in data.left_out] == [
        str(lost),
        str(tmp_path / "val" / "air drumming" / f"{CLIPS[2]}.mp4"),
    ]
    (tmp_path / kept).unlink()
    with pytest.raises(SourceError, match="this video and 2 more of 3"):
        kinetics(tmp_path / "val.csv", tmp_path / "val", missing="skip")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "youtube_id,time_start\nx,1\n", "has no column 'time_end'"),
        ("a.csv", LIST + "x,y,early,20,z\n", "line 5: 'early' is not a time"),
        ("a.csv", LIST + "x,y,nan,20,z\n", "line 5: 'nan' is not a time"),
        ("a.csv", LIST + "x,y\n", "line 5: 2 values"),
        ("a.csv", LIST + ",y,1,2,z\n", "line 5: the label is missing"),
        ("a.json", "[]", "not a JSON file that holds a dict"),
        ("a.json", "{", "is not JSON"),
        ("a.json", {}, "has no videos"),
        ("a.json", {"x": {"annotations": {"label": "run"}}}, "x has no annotations with a segment"),
        ("a.json", {"x": 1}, "x has no annotations with a segment"),
        ("a.json", {"x": {"annotations": {"label": "run", "segment": ["a", 1]}}}, "x: 'a' is not a time"),
        ("a.json", {"x": {"annotations": {"label": "run", "segment": ["1_0", 20]}}}, "x: '1_0' is not a time"),
        ("a.json", {"x": {"annotations": {"label": "run", "segment": "12"}}}, "x has no annotations with a segment"),
        ("a.json", {"x": {"annotations": {"label": "run", "segment": {"3": 0, "7": 0}}}}, "x has no annotations with"),
        ("a.json", {"x": {"annotations": {"label": "run", "segment": [True, 5]}}}, "x has no annotations with"),
        ("a.json", {"x": {"annotations": {"label": 0, "segment": [1, 2]}}}, "x: the label is missing"),
        ("a.json", {"x": {"annotations": {"label": "run", "segment": [0, 10**309]}}}, "x: 10*0 is not a time"),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_row(tmp_path: Path, name: str, content: object, message: str) -> None:
    write(tmp_path, {name: content, "videos/z.mp4": None})
    with pytest.raises(ConfigurationError, match=f"^{tmp_path / name}: .*{message}"):
        kinetics(tmp_path / name, tmp_path / "videos")
