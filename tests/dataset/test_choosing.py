"""Rows chosen by number, list or mask, and random splits of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ArgumentError, ConfigurationError, RowRangeError

DATA = VideoDataset([VideoEntry(f"v{row}.mp4", row % 3, columns={"take": row}) for row in range(10)], ["a", "b", "c"])


def rows_of(data: VideoDataset) -> list[int]:
    return [entry.columns["take"] for entry in data]


class TestFields:
    def test_labels_and_paths_are_those_of_the_rows(self) -> None:
        assert DATA.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
        assert DATA.paths == [f"v{row}.mp4" for row in range(10)]
        assert DATA.paths[-1] == "v9.mp4"
        assert repr(DATA[:2].paths) == "['v0.mp4', 'v1.mp4']"

    def test_labels_cannot_be_written_to(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            DATA.labels[:] = 0

    def test_a_row_without_a_label_has_that_of_batches(self) -> None:
        assert VideoDataset.from_paths(["a", "b"], [None, 4]).labels.tolist() == [-1, 4]
        assert VideoDataset.from_paths(["a", "b"], [-1, 4])[0].label is None
        assert VideoEntry("a", -1) == VideoEntry("a")

    @pytest.mark.parametrize(
        ("data", "classes"),
        [
            (DATA, 3),
            (DATA[:1], 3),
            (VideoDataset.from_paths(["a", "b"], [7, 0]), 8),
            (VideoDataset.from_paths(["a"]), 0),
        ],
    )
    def test_classes_are_as_many_as_a_classifier_needs(self, data: VideoDataset, classes: int) -> None:
        assert data.num_classes == classes


class TestIndexing:
    @pytest.mark.parametrize("index", [3, -7, np.int64(3), torch.tensor(3), np.array(3)])
    def test_one_number_is_a_row(self, index: Any) -> None:
        assert DATA[index] == list(DATA)[3]

    @pytest.mark.parametrize(
        ("index", "rows"),
        [
            (slice(2, 8, 3), [2, 5]),
            ([0, 3], [0, 3]),
            ([3, 0, 3, -1], [3, 0, 3, 9]),
            (range(4, 2, -1), [4, 3]),
            (np.array([5], np.uint8), [5]),
            (torch.tensor([5, -1]), [5, 9]),
            (torch.tensor([3]), [3]),
            (DATA.labels == 2, [2, 5, 8]),
            ([row == 4 for row in range(10)], [4]),
            (torch.arange(10) > 7, [8, 9]),
        ],
    )
    def test_several_are_a_data_set_of_these_rows(self, index: Any, rows: list[int]) -> None:
        chosen = DATA[index]
        assert rows_of(chosen) == rows
        assert chosen.class_names == DATA.class_names

    @pytest.mark.parametrize(
        "index", ["take", True, [0, True], 1.5, None, (0, 3), [0.5], ["v0.mp4"], [[0, 1]], [[0], [1, 2]], {0}]
    )
    def test_what_is_no_number_is_an_argument_error(self, index: Any) -> None:
        with pytest.raises(ArgumentError, match=r"rows are chosen by numbers, as data\[3\], .* got "):
            DATA[index]

    @pytest.mark.parametrize("index", [10, -11, [0, 10], np.array([-11])])
    def test_a_row_that_is_not_there_is_out_of_range(self, index: Any) -> None:
        with pytest.raises(RowRangeError, match=r"row (10|-11) is outside the data set\'s 10 rows"):
            DATA[index]

    @pytest.mark.parametrize("rows", [DATA.paths, DATA.entries])
    def test_so_are_rows_of_its_columns(self, rows: Any) -> None:
        for beyond in (10, -11):
            with pytest.raises(RowRangeError, match=f"row {beyond} is outside the 10 rows"):
                rows[beyond]
        with pytest.raises(ArgumentError, match="rows are chosen by a number or a slice, got 'x'"):
            rows["x"]
        for wrong in (slice(None, None, 0), slice("a"), slice(1.5, None)):
            with pytest.raises(
                ArgumentError, match="the ends of a slice must be integers and its step not 0, got slice"
            ):
                rows[wrong]

    def test_it_is_an_index_error_too(self) -> None:
        assert issubclass(RowRangeError, IndexError)

    def test_a_mask_has_a_value_for_each_row(self) -> None:
        with pytest.raises(RowRangeError, match="one value for each of the data set's 10 rows, got 3"):
            DATA[[True, False, True]]

    @pytest.mark.parametrize("index", [[], np.zeros(10, np.bool_), slice(0)])
    def test_no_rows_are_no_data_set(self, index: Any) -> None:
        with pytest.raises(
            ConfigurationError,
            match=r"none of the 10 rows is left.*; labels are numbers, 0 for 'a', and columns of CSV are text$",
        ):
            DATA[index]


class TestFilter:
    def test_keeps_the_rows_of_which_a_function_says_so(self) -> None:
        assert rows_of(DATA.filter(lambda entry: entry.columns["take"] > 7)) == [8, 9]

    @pytest.mark.parametrize("no", ["0", "False", " no "])
    def test_a_text_that_says_no_is_not_taken_for_true(self, no: str) -> None:
        with pytest.raises(ConfigurationError, match=f"keep gives '{no}', which Python takes for True: columns of CSV"):
            DATA.filter(lambda entry: no)


class TestSplit:
    @given(
        labels=st.lists(st.integers(0, 3), min_size=2, max_size=60),
        share=st.floats(0.01, 0.99),
        seed=st.integers(0, 2**64 - 1),
        stratified=st.booleans(),
    )
    def test_every_video_is_in_one_part_in_its_order(
        self, labels: list[int], share: float, seed: int, stratified: bool
    ) -> None:
        data = VideoDataset([VideoEntry(f"{row}", label, columns={"take": row}) for row, label in enumerate(labels)])
        first, second = (rows_of(part) for part in data.split(share, seed=seed, stratified=stratified))
        assert sorted(first + second) == list(range(len(data)))
        assert (first, second) == (sorted(first), sorted(second))
        wanted = np.floor(len(data) * share + 0.5)
        assert len(first) == min(max(wanted, 1), len(data) - 1)
        if stratified and 1 <= wanted < len(data):
            for label in set(labels):
                own = sum(labels[row] == label for row in first)
                assert abs(own - labels.count(label) * share) < 1 + 1e-9

    def test_the_same_seed_gives_the_same_parts_and_another_others(self) -> None:
        first = [rows_of(DATA.split(0.5, seed=seed)[0]) for seed in (1, 1, 2)]
        assert first[0] == first[1] != first[2]
        assert first[0] != list(range(5))

    def test_rows_of_a_video_stay_together_and_keep_what_they_have(self) -> None:
        rows = [VideoEntry(f"v{row % 5}", row % 2, start=row, columns={"take": row}) for row in range(20)]
        first, second = VideoDataset(rows, ["a", "b"]).split(0.6, seed=3)
        assert (len(first), len(second)) == (12, 8)
        assert not set(first.paths) & set(second.paths)
        assert list(first) == [rows[row] for row in rows_of(first)]
        assert first.class_names == second.class_names == ("a", "b")

    def test_a_video_is_the_same_however_its_path_is_spelled(self) -> None:
        spelled = [f"k/{row}.mp4" for row in range(9)] + [f"./k/x/../{row}.mp4" for row in range(9)]
        first, second = VideoDataset.from_paths(spelled).split(0.5)
        assert not {Path(path).name for path in first.paths} & {Path(path).name for path in second.paths}

    def test_one_video_cannot_be_in_both_parts(self) -> None:
        with pytest.raises(ConfigurationError, match=r"^a\.mp4: all rows are of one video"):
            VideoDataset([VideoEntry("a.mp4", start=1), VideoEntry("a.mp4", start=2)]).split(0.5)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"share": 80}, "share must be a number between 0 and 1, got 80: 0.8 means 80 %"),
            ({"share": 0.0}, "share must be a number between 0 and 1, got 0.0"),
            ({"share": [0.8, 0.2]}, r"share must be a number between 0 and 1, got \[0.8, 0.2\]"),
            ({"share": 0.5, "seed": -1}, "seed must be an integer"),
            ({"share": 0.5, "stratified": "label"}, "stratified must be True or False, got 'label'"),
        ],
    )
    def test_bad_arguments_are_named(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            DATA.split(**arguments)
