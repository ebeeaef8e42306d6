"""Something-Something v2: JSON lists with templates, and labels by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from published import write

from videoloader.errors import ConfigurationError
from videoloader.layouts import something_something

LABELS = {"Holding something next to something": "1", "Approaching something with your camera": "0"}
TRAIN = [
    {
        "id": "78687",
        "label": "holding potato next to vicks vaporub bottle",
        "template": "Holding [something] next to [something]",
        "placeholders": ["potato", "vicks vaporub bottle"],
    },
    {
        "id": "42326",
        "label": "approaching a cup with your camera",
        "template": "Approaching [something] with your camera",
        "placeholders": ["a cup"],
    },
]
TEST = [{"id": "1420"}]
VIDEOS = dict.fromkeys(f"videos/{name}.webm" for name in ("78687", "42326", "1420"))


@pytest.mark.parametrize("name", ["labels/{}.json", "something-something-v2-{}.json"])
def test_templates_are_labels_and_captions_travel(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name.format("train"): TRAIN, name.format("labels"): LABELS, **VIDEOS})
    data = something_something(tmp_path / name.format("train"), tmp_path / "videos")
    assert data.class_names == tuple(sorted(LABELS))
    assert [entry.label for entry in data] == [1, 0]
    assert data[0].path == str(tmp_path / "videos/78687.webm")
    assert data[0].columns == {
        "id": "78687",
        "caption": TRAIN[0]["label"],
        "placeholders": ["potato", "vicks vaporub bottle"],
    }


def test_a_test_list_has_no_labels(tmp_path: Path) -> None:
    write(tmp_path, {"test.json": TEST, "classes.json": LABELS, **VIDEOS})
    data = something_something(tmp_path / "test.json", tmp_path / "videos", labels=tmp_path / "classes.json")
    assert (data[0].label, data[0].columns) == (None, {"id": "1420"})


@pytest.mark.parametrize(
    ("listed", "labels", "file", "message"),
    [
        ([*TRAIN, {"id": "1", "template": "Eating [something]"}], LABELS, "train", "video 3: its template .Eating"),
        ([*TRAIN, {"id": "1"}], LABELS, "train", "video 3: its template '' is not among the labels"),
        ([*TEST, *TRAIN], LABELS, "train", "video 1: the label is missing"),
        ([{"id": None}], LABELS, "train", "video 1 is not an object with an id"),
        (["1420"], LABELS, "train", "video 1 is not an object with an id"),
        ([{"id": "1", "template": ["x"]}], LABELS, "train", r"video 1: its template \['x'\]"),
        ({}, LABELS, "train", "not a JSON file that holds a list"),
        ([], LABELS, "train", "the list has no videos"),
        (TRAIN, {"a": "0", "b": "2"}, "labels", "must number its 2 templates from 0 to 1"),
        (TRAIN, {"a": float("inf")}, "labels", "must number its 1 templates from 0 to 0"),
        (TRAIN, {"a": 0.2, "b": 1.9}, "labels", "must number its 2 templates from 0 to 1"),
        (TRAIN, {"a": "x"}, "labels", "must number its 1 templates from 0 to 0"),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_row(
    tmp_path: Path, listed: Any, labels: Any, file: str, message: str
) -> None:
    write(tmp_path, {"train.json": listed, "labels.json": labels, **VIDEOS})
    with pytest.raises(ConfigurationError, match=f"^{tmp_path / file}.json: .*{message}"):
        something_something(tmp_path / "train.json", tmp_path / "videos")


def test_a_list_of_another_name_needs_its_labels_named(tmp_path: Path) -> None:
    write(tmp_path, {"mine.json": TRAIN, **VIDEOS})
    with pytest.raises(ConfigurationError, match="give labels="):
        something_something(tmp_path / "mine.json", tmp_path / "videos")
