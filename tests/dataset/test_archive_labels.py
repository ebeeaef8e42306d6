"""Labels of videos in archives: from files of the same key, record headers and JSON fields."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from archive_writing import recordio_bytes, tar_bytes

import videoloader as vl

Sample = Callable[[str], Path]


def test_labels_may_be_names(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"1.mp4": b"", "1.cls": b"walk", "2.MP4": b"", "2.cls": b"run"}))
    data = vl.VideoDataset.from_tars(tmp_path / "x.tar")
    assert ([row.label for row in data], data.class_names) == ([1, 0], ("run", "walk"))
    with pytest.raises(vl.ConfigurationError, match=r"x\.tar::2\.MP4: label 'run' is not in class_names"):
        vl.VideoDataset.from_tars(tmp_path / "x.tar", class_names=["walk"])


def test_minus_one_stands_for_no_label_as_in_tables(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"1.mp4": b"", "1.cls": b"-1", "2.mp4": b"", "2.cls": b"4"}))
    data = vl.VideoDataset.from_archives(tmp_path / "x.tar")
    assert ([row.label for row in data], data.labels.tolist()) == ([None, 4], [-1, 4])


@pytest.mark.parametrize("with_keys", [False, True])
def test_labels_in_the_headers_of_recordio(sample: Sample, tmp_path: Path, with_keys: bool) -> None:
    video = sample("h264_mp4").read_bytes()
    path = tmp_path / "x.rec"

    def write(*headers: bytes) -> None:
        whole, starts = recordio_bytes([header + video for header in headers])
        path.write_bytes(whole)
        if with_keys:
            path.with_suffix(".idx").write_text("".join(f"{10 + n}\t{start}\n" for n, start in enumerate(starts)))

    write(struct.pack("<IfQQ", 0, 2.0, 70, 0), struct.pack("<IfQQ", 0, 0.0, 71, 0))
    data = vl.VideoDataset.from_archives(path)
    assert [row.path for row in data] == [f"{path}::{key}" for key in ((10, 11) if with_keys else (0, 1))]
    assert (data.labels.tolist(), data[0].columns) == ([2, 0], {"id": 70})
    assert torch.equal(vl.Video(data[1].path, device="cpu")[3], vl.Video(video, device="cpu")[3])
    write(struct.pack("<IfQQ", 0, 2.5, 70, 0), struct.pack("<IfQQ2f", 2, 0.0, 71, 0, 4.0, 5.0))
    data = vl.VideoDataset.from_archives(path)
    assert [row.columns for row in data] == [{"id": 70, "label": 2.5}, {"id": 71, "labels": [4.0, 5.0]}]


def test_a_record_without_a_video_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    path.write_bytes(recordio_bytes([struct.pack("<IfQQ", 0, 2.0, 70, 0)])[0])
    assert vl.VideoDataset.from_archives(path).labels.tolist() == [2]
    with pytest.raises(vl.SourceError, match="0: is empty"):
        vl.Video(f"{path}::0", device="cpu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 60_000, r"x\.tar::a\.json: is not valid JSON, despite its extension \(maximum recursion depth"),
        (b'{"y": NaN}', r"the label 'json\.y' must be a number or a name, got nan"),
        (b'{"y": 1e999}', r"the label 'json\.y' must be a number or a name, got inf"),
    ],
)
def test_json_that_is_no_label(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v", "a.json": text}))
    with pytest.raises(vl.ConfigurationError, match=message):
        vl.VideoDataset.from_archives(tmp_path / "x.tar", label="json.y")


def test_no_file_takes_the_place_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v", "a.__key__": b"b"}))
    with pytest.warns(vl.VideoLoaderWarning, match=r"1 of 1 archives have a file .* extension is __key__"):
        assert vl.VideoDataset.from_archives(tmp_path / "x.tar")[0].columns == {"__key__": "a"}
