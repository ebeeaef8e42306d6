"""Hugging Face data sets as VideoDatasets."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import torch
from late_modules import LateModule

import videoloader as vl
from videoloader.interop.huggingface import from_huggingface

datasets = LateModule("datasets", reason="needs Hugging Face datasets")
Sample = Callable[[str], Path]
NAMES = ["h264_mp4", "vp9_webm", "hevc_mp4"]


@pytest.fixture(scope="module")
def paths(sample: Sample) -> list[Path]:
    return [sample(name) for name in NAMES]


@pytest.mark.parametrize("path", ["a.m\0p4", "taken.mp4"])
def test_bytes_that_cannot_be_written_leave_nothing_behind(paths: list[Path], tmp_path: Path, path: str) -> None:
    content = paths[0].read_bytes()
    taken = tmp_path / f"{blake2b(content, digest_size=16).hexdigest()}.mp4"
    taken.mkdir()
    rows = rows_of([{"path": path, "bytes": content}])
    with pytest.raises(vl.SourceError, match="the video cannot be written"):
        from_huggingface(rows, video="clip", folder=tmp_path)
    assert list(tmp_path.iterdir()) == [taken]


def rows_of(column: list[Any], **others: list[Any]) -> Any:
    return datasets.Dataset.from_dict({"clip": column, **others})


def test_paths_with_other_columns(paths: list[Path]) -> None:
    rows = rows_of(list(map(str, paths)), caption=["a", "b", "c"], score=[0.5, 1.5, None], tags=[["x"], [], ["y", "z"]])
    data = from_huggingface(rows, video="clip")
    assert [entry.path for entry in data] == list(map(str, paths))
    assert [dict(entry.columns) for entry in data] == [
        {name: row[name] for name in ("caption", "score", "tags")} for row in rows
    ]
    assert data.class_names == ()
    batch = next(iter(vl.VideoLoader(data, vl.FrameList([3]), batch_size=3, device="cpu")))
    assert torch.equal(batch.frames[1, 0], vl.Video(paths[1], device="cpu")[3])
    assert batch.columns[2]["tags"] == ["y", "z"]


@pytest.mark.parametrize("in_dictionaries", [False, True])
def test_bytes_are_written_once_and_read_from_there(paths: list[Path], tmp_path: Path, in_dictionaries: bool) -> None:
    contents = [path.read_bytes() for path in [*paths, paths[0]]]
    column = [{"path": "x.mp4", "bytes": each} for each in contents] if in_dictionaries else contents
    rows = rows_of(column)
    data = from_huggingface(rows, video="clip", folder=tmp_path / "videos")
    assert [Path(entry.path).read_bytes() for entry in data] == contents
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "videos").iterdir()}
    assert len(written) == 3
    assert {path.suffix for path in written} == {".mp4" if in_dictionaries else ""}
    assert len(vl.Video(data[1].path, device="cpu")) == 60
    assert from_huggingface(rows, video="clip", folder=tmp_path / "videos") == data
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "videos").iterdir()} == written
    with pytest.raises(vl.ConfigurationError, match="folder"):
        from_huggingface(rows, video="clip")


def test_a_video_column_is_taken_as_it_is_stored(paths: list[Path], tmp_path: Path) -> None:
    stored = [{"path": str(paths[0]), "bytes": None}, {"path": None, "bytes": paths[1].read_bytes()}]
    rows = rows_of(stored).cast_column("clip", datasets.Video())
    data = from_huggingface(rows, video="clip", folder=tmp_path)
    assert data[0].path == str(paths[0])
    assert Path(data[1].path).read_bytes() == paths[1].read_bytes()


def test_classes(paths: list[Path]) -> None:
    names = ["walk", "run", "jump"]
    kind = datasets.Features({"clip": datasets.Value("string"), "action": datasets.ClassLabel(names=names)})
    rows = datasets.Dataset.from_dict({"clip": list(map(str, paths)), "action": [2, 0, 2]}, features=kind)
    data = from_huggingface(rows, video="clip")
    assert list(data.class_names) == names
    assert [entry.label for entry in data] == [2, 0, 2]
    assert not data[0].columns
    for untold, labels in (([-1] * 3, [None] * 3), ([1, -1, None], [1, None, None])):
        rows = datasets.Dataset.from_dict({"clip": list(map(str, paths)), "action": untold}, features=kind)
        data = from_huggingface(rows, video="clip")
        assert [entry.label for entry in data] == labels
        assert list(data.class_names) == names


@pytest.mark.parametrize("label", [datasets.Value("int64"), datasets.ClassLabel(names=["1", "2", "0"])])
def test_a_column_that_is_named_label_comes_before_other_class_labels(label: Any) -> None:
    kind = {"video": datasets.Value("string"), "split": datasets.ClassLabel(names=["train", "test"]), "label": label}
    rows = {"video": ["a.mp4", "b.mp4", "c.mp4"], "split": [0, 1, 1], "label": [2, 0, 1]}
    data = from_huggingface(datasets.Dataset.from_dict(rows, features=datasets.Features(kind)))
    assert [entry.label for entry in data] == [2, 0, 1]
    assert data.class_names == tuple(getattr(label, "names", ()))
    assert [entry.columns for entry in data] == [{"split": 0}, {"split": 1}, {"split": 1}]


def test_parts_of_videos_and_chosen_rows(paths: list[Path]) -> None:
    rows = rows_of(list(map(str, paths)) * 50, begin=list(range(150)), stop=[200] * 150)
    data = from_huggingface(
        rows.select(range(149, -1, -2)), video="clip", columns={"start": "begin", "stop": "stop"}
    )  # fmt: skip
    assert len(data) == 75
    assert [(data[row].path, data[row].start) for row in (0, 74)] == [(str(paths[2]), 149), (str(paths[1]), 1)]


@pytest.mark.parametrize(
    ("rows", "video", "message"),
    [
        ({"clip": ["a"]}, "video", "is not a column"),
        ({"clip": []}, "clip", "no rows"),
        ({"clip": ["a", None]}, "clip", "row 1"),
        ({"clip": [{"path": None, "bytes": None}]}, "clip", "row 0"),
        ({"clip": [5]}, "clip", "row 0"),
        ({"clip": ["a"], "label": [[1]]}, "clip", "label"),
    ],
)
def test_what_makes_no_sense_is_named(rows: dict[str, list[Any]], video: str, message: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=message):
        from_huggingface(datasets.Dataset.from_dict(rows), video=video)


def test_splits_and_streams_are_no_rows() -> None:
    rows = datasets.Dataset.from_dict({"video": ["a.mp4"]})
    for given in (datasets.DatasetDict({"train": rows}), rows.to_iterable_dataset()):
        with pytest.raises(vl.ConfigurationError, match=r"take a split of several, as rows\['train'\]"):
            from_huggingface(given)


def test_an_unwritable_folder(paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(vl.SourceError, match="written"):
        from_huggingface(rows_of([paths[0].read_bytes()]), video="clip", folder=tmp_path / "file")
