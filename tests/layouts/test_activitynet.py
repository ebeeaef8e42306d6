"""ActivityNet: one row for each segment of a subset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from published import write

from videoloader.errors import ConfigurationError, SourceError
from videoloader.layouts import activitynet


def video(subset: str, *annotations: tuple[str, float, float]) -> dict[str, Any]:
    listed = [{"segment": [begin, end], "label": label} for label, begin, end in annotations]
    return {"duration": 82.73, "subset": subset, "resolution": "1920x1080", "url": "…", "annotations": listed}


DATABASE = {
    "sJQn6o5fHKw": video("training", ("Washing", 6.19, 17.15), ("Archery", 20, 90.5)),
    "v1": video("validation", ("Washing", 0.5, 1.5)),
    "t1": video("testing"),
}
VIDEOS = dict.fromkeys(("videos/v_sJQn6o5fHKw.mp4", "videos/v1.mkv", "videos/v_t1.webm"))


def read(root: Path, database: Any, **options: Any) -> Any:
    write(root, {"anet.json": {"database": database, "taxonomy": [], "version": "VERSION 1.3"}, **VIDEOS})
    return activitynet(root / "anet.json", root / "videos", **options)


def test_rows_are_segments_and_all_subsets_agree_on_labels(tmp_path: Path) -> None:
    data = read(tmp_path, DATABASE)
    path = str(tmp_path / "videos/v_sJQn6o5fHKw.mp4")
    assert [(e.path, e.label, e.start_seconds, e.stop_seconds) for e in data] == [
        (path, 1, 6.19, 17.15),
        (path, 0, 20.0, 90.5),
    ]
    assert data[1].columns == {"youtube_id": "sJQn6o5fHKw", "duration": 82.73, "segment": 1}
    val = read(tmp_path, DATABASE, subset="VALIDATION")
    assert (val[0].path, val[0].label) == (str(tmp_path / "videos/v1.mkv"), 1)
    assert data.class_names == val.class_names == ("Archery", "Washing")


def test_rows_without_annotations_are_whole_videos(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, DATABASE, subset="testing")
    assert (entry.label, entry.start_seconds, entry.stop_seconds) == (None, None, None)


def test_missing_videos_and_empty_segments_are_errors_or_left_out(tmp_path: Path) -> None:
    more = {**DATABASE, "gone": video("training", ("Archery", 1, 2)), "odd": video("training", ("Archery", 3, 3))}
    with pytest.raises(ConfigurationError, match="odd, segment 0 and 0 more are empty"):
        read(tmp_path, more)
    data = read(tmp_path, more, missing="skip")
    assert len(data) == 2
    assert data.left_out == (
        (str(tmp_path / "videos/v_gone.mp4"), "there is no such file"),
        ("odd, segment 0", "the segment is empty"),
    )
    with pytest.raises(SourceError, match=r"v_gone.mp4: this video and 0 more of 3"):
        read(tmp_path, {name: row for name, row in more.items() if name != "odd"})


@pytest.mark.parametrize(
    ("database", "message"),
    [
        ([], 'there is no object "database"'),
        ({}, "there is no subset 'training'"),
        ({"a": video("testing")}, "there is no subset 'training': testing"),
        ({"a": 1}, "a: annotations must be objects"),
        ({"a": {"subset": "training", "annotations": [{"label": "x"}]}}, "a: annotations must be"),
        ({"a": {"subset": "training", "annotations": [{"label": "x", "segment": [1]}]}}, "a: annotations must be"),
        ({"a": {"subset": "training", "annotations": [{"label": 1, "segment": [1, 2]}]}}, "a: annotations must be"),
        ({"a": video("training", ("x", "1_0", 20))}, "a: annotations must be"),
        ({"a": video("training", ("x", True, 20))}, "a: annotations must be"),
        ({"a": {"subset": "training", "annotations": [{"label": "x", "segment": "12"}]}}, "a: annotations must be"),
        ({"a": {"subset": "training", "annotations": [{"label": "x", "segment": {"3": 0, "7": 0}}]}}, "a: annotations"),
        ({"a": video("training", ("x", 0, 10**309))}, "a: annotations must be"),
        ({**DATABASE, "a": video("training")}, "a has no annotations, unlike other videos"),
        ({"sJQn6o5fHKw": video("training", ("x", 1, float("inf")))}, "sJQn6o5fHKw, segment 0: .*stop_seconds must be"),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_video(tmp_path: Path, database: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{tmp_path}/anet.json: {message}"):
        read(tmp_path, database)
