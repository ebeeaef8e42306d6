"""``batch.rows``: the data set row of each clip of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoloader as vl

Sample = Callable[[str], Path]


@pytest.fixture(scope="module")
def data(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> vl.VideoDataset:
    """Ten frames each: three parts of a video, then a file that is no video, then three parts of another."""
    text = tmp_path_factory.mktemp("damaged") / "text.mp4"
    text.write_text("not a video")
    parts = [(sample("h264_mp4"), start) for start in (0, 20, 40)] + [(sample("hevc_mp4"), at) for at in (5, 25, 45)]
    entries = [vl.VideoEntry(str(path), number, start=at, stop=at + 10) for number, (path, at) in enumerate(parts)]
    return vl.VideoDataset([*entries[:3], vl.VideoEntry(str(text), start=0, stop=10), *entries[3:]])


def make(data: vl.VideoDataset, **settings: Any) -> vl.VideoLoader:
    defaults = {"batch_size": 4, "device": "cpu", "num_workers": 2, "shuffle": True, "on_error": "skip"}
    return vl.VideoLoader(data, vl.RandomWindow(3, stride=2, clips=2), **(defaults | settings))


def check(batches: Iterable[vl.Batch], data: vl.VideoDataset) -> list[int]:
    """Each clip shows frames of the row that is named; the rows of all batches."""
    rows: list[int] = []
    for batch in batches:
        assert batch.rows.dtype == np.int64
        for row, path, numbers in zip(batch.rows.tolist(), batch.paths, batch.frame_numbers, strict=True):
            entry = data[row]
            assert path == entry.path
            assert all(entry.start <= number < entry.stop for number in numbers)
        rows += batch.rows.tolist()
    return rows


USABLE = [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("collate", ["stack", "pad", "list"])
def test_each_clip_names_its_row_in_every_epoch(data: vl.VideoDataset, collate: str) -> None:
    loader = make(data, collate=collate)
    first, second = check(loader, data), check(loader, data)
    assert sorted(first) == sorted(second) == sorted(USABLE * 2)
    assert first != second


def test_rows_are_those_of_the_data_set_that_the_loader_has(data: vl.VideoDataset) -> None:
    parts = data[USABLE]
    repeated = vl.VideoDataset.mix([parts[:2].balanced(rows_per_class=3), parts], ratios=[0.5, 0.5])
    assert sorted(check(make(repeated), repeated)) == sorted([*range(len(repeated))] * 2)


def test_rows_go_on_after_a_resume(data: vl.VideoDataset) -> None:
    whole, loader, resumed = check(make(data), data), make(data), make(data)
    for _ in loader:
        break
    resumed.load_state_dict(loader.state_dict())
    assert check(resumed, data) == whole[4:]


def test_views_of_a_clip_have_its_row(data: vl.VideoDataset) -> None:
    once, twice = check(make(data), data), check(make(data, repeats=2), data)
    assert twice == np.repeat(once, 2).tolist()


def test_of_mixed_clips_the_row_is_that_of_the_one_in_its_place(data: vl.VideoDataset) -> None:
    mixed = make(data, transforms=[vl.transforms.MixUp(0.8, num_classes=6)], dtype="float32")
    plain, batches = list(make(data)), list(mixed)
    assert check(batches, data) == check(plain, data)
    labelled = data.labels[np.concatenate([batch.rows for batch in batches])]
    assert labelled.tolist() == [label for batch in plain for label in batch.labels.tolist()]


def test_a_clip_that_stands_in_for_another_names_its_own_row(sample: Sample, tmp_path: Path) -> None:
    content = bytearray(sample("h264_mp4").read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    (tmp_path / "noise.mp4").write_bytes(content)
    paths = [tmp_path / "noise.mp4", sample("h264_mp4"), sample("hevc_mp4")]
    entries = [vl.VideoEntry(str(path), start=20, stop=40) for path in paths]
    damaged = vl.VideoDataset(entries)
    loader = make(damaged, on_error="replace")
    rows = check(loader, damaged)
    assert len(rows) == 6
    assert 0 not in rows
