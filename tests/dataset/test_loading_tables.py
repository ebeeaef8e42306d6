"""Table values reach the clips: parts of videos, labels and all other columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import videoloader as vl


def test_columns_of_a_table_travel_to_the_batch(sample: Callable[[str], Path], tmp_path: Path) -> None:
    path = str(sample("h264_mp4"))
    rows = [
        {"path": path, "label": "run", "start_frame": 7, "end_frame": 11, "caption": "faster", "boxes": [[0, 1, 2, 3]]},
        {"path": path, "label": "fall", "start_frame": 40, "end_frame": 44, "weight": 0.5},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = vl.VideoDataset.from_csv(tmp_path / "rows.jsonl")
    (batch,) = vl.VideoLoader(data, vl.EveryWindow(4), batch_size=2, device="cpu", num_workers=1)
    assert batch.labels.tolist() == [1, 0]
    assert batch.columns == [{"caption": "faster", "boxes": [[0, 1, 2, 3]]}, {"weight": 0.5}]
    np.testing.assert_array_equal(batch.frame_numbers, [[7, 8, 9, 10], [40, 41, 42, 43]])


def test_an_epoch_of_a_weighted_data_set_shuffled_has_each_row_as_often_as_it_stands_there(
    sample: Callable[[str], Path],
) -> None:
    path = str(sample("h264_mp4"))
    data = vl.VideoDataset([vl.VideoEntry(path, label, start=20 * label) for label in range(3)]).weighted(
        [3, 0, 1], rows=8
    )
    loader = vl.VideoLoader(data, vl.RandomWindow(2), batch_size=4, device="cpu", num_workers=1, shuffle=True, seed=5)
    for _ in range(2):
        assert sorted(label for batch in loader for label in batch.labels.tolist()) == [0] * 6 + [2] * 2


def test_layouts_are_part_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "sequences/00001/0001").mkdir(parents=True)
    (tmp_path / "list.txt").write_text("00001/0001\n")
    assert len(vl.layouts.vimeo90k(tmp_path / "list.txt")) == 1
