"""Data sets in tar shards: rows are videos, the small files beside them their columns."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from archive_writing import tar_bytes
from range_server import serve

import videoloader as vl

Sample = Callable[[str], Path]


@pytest.fixture
def shards(sample: Sample, tmp_path: Path) -> list[Path]:
    """Two shards of two videos each: a number as label, a caption, JSON, and a picture."""
    video = sample("h264_mp4").read_bytes()
    paths = []
    for shard in range(2):
        files: dict[str, bytes] = {}
        for key in (f"v/{shard}0", f"v/{shard}1.left"):
            stem = key.partition(".")[0]
            files |= {f"{key}.mp4": video, f"{stem}.cls": b"%d\n" % shard, f"{stem}.txt": "Höhe".encode()}
            files |= {f"{stem}.json": json.dumps({"fps": 25}).encode(), f"{stem}.jpg": b"\xff\xd8"}
            files[f"{stem}.npy"] = b"x" * (65 << 10)
        files["other.json"] = b"not JSON, and of no video"
        paths.append(tmp_path / f"{shard}.tar")
        paths[-1].write_bytes(tar_bytes(files))
    return paths


def test_rows_are_the_videos_and_columns_what_lies_beside_them(shards: list[Path]) -> None:
    data = vl.VideoDataset.from_tars(shards)
    assert [entry.path for entry in data] == [
        f"{shards[0]}::v/00.mp4",
        f"{shards[0]}::v/01.left.mp4",
        f"{shards[1]}::v/10.mp4",
        f"{shards[1]}::v/11.left.mp4",
    ]
    assert [entry.label for entry in data] == [0, 0, 1, 1]
    assert data[3].columns == {"__key__": "v/11", "txt": "Höhe", "json": {"fps": 25}, "jpg": b"\xff\xd8"}
    assert list(vl.VideoDataset.from_tars(str(shards[1]))) == list(data)[2:]


def test_clips_are_those_of_the_unpacked_file(shards: list[Path], sample: Sample) -> None:
    data = vl.VideoDataset.from_tars(shards)
    loader = vl.VideoLoader(data, vl.EveryWindow(20, step=20), batch_size=3, device="cpu", num_workers=2)
    frames = torch.cat([batch.frames for batch in loader])
    expected = vl.Video(sample("h264_mp4"), device="cpu")[:]
    assert torch.equal(frames, torch.cat([expected.view(3, 20, 3, 128, 160)] * 4))


def test_shards_behind_urls(shards: list[Path]) -> None:
    with serve({path.name: path.read_bytes() for path in shards}) as server:
        remote = vl.VideoDataset.from_tars(f"{server.url}{path.name}" for path in shards)
        assert remote[2].path == f"{server.url}1.tar::v/10.mp4"
        local = vl.VideoDataset.from_tars(shards)
        assert [(row.label, row.columns) for row in remote] == [(row.label, row.columns) for row in local]
        assert torch.equal(vl.Video(remote[2].path, device="cpu")[7], vl.Video(local[2].path, device="cpu")[7])


def test_labels_may_be_names(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"1.mp4": b"", "1.cls": b"walk", "2.MP4": b"", "2.cls": b"run"}))
    data = vl.VideoDataset.from_tars(tmp_path / "x.tar")
    assert ([row.label for row in data], data.class_names) == ([1, 0], ("run", "walk"))
    with pytest.raises(vl.ConfigurationError, match=r"x\.tar::2\.MP4: label 'run' is not in class_names"):
        vl.VideoDataset.from_tars(tmp_path / "x.tar", class_names=["walk"])


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"1.mp4": b"", "1.cls": b"1", "2.mp4": b""}, vl.ConfigurationError, r"x\.tar::2\.mp4: the label is missing"),
        ({"1.mp4": b"", "1.json": b"{"}, vl.ConfigurationError, r"x\.tar::1\.json: does not hold what its name says"),
        ({"1.mp4": b"", "1.txt": b"\xff"}, vl.ConfigurationError, r"x\.tar::1\.txt: does not hold what its name says"),
        ({"1.png": b""}, vl.ConfigurationError, "no video in 1 archives"),
    ],
)
def test_what_makes_no_sense_is_an_error(
    tmp_path: Path, files: dict[str, bytes], error: type[Exception], message: str
) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes(files))
    with pytest.raises(error, match=message):
        vl.VideoDataset.from_tars(tmp_path / "x.tar")


def test_shards_that_cannot_be_read(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(shards[0].read_bytes()))
    with pytest.raises(vl.UnsupportedError, match=r"x\.tar\.gz: is compressed \(gzip\)"):
        vl.VideoDataset.from_tars([shards[0], tmp_path / "x.tar.gz"])
    with pytest.raises(vl.SourceError, match=r"missing\.tar: cannot be opened"):
        vl.VideoDataset.from_tars([shards[0], tmp_path / "missing.tar"])
    shards[0].write_bytes(shards[0].read_bytes()[:50_000])
    with pytest.raises(vl.IndexingError, match=r"0\.tar: is cut off"):
        vl.VideoDataset.from_tars(shards)
