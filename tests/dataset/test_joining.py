"""Parts of data sets, and joined data sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ConfigurationError

names = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)


@st.composite
def named(draw: st.DrawFn) -> VideoDataset:
    classes = draw(names)
    labels = draw(st.lists(st.none() | st.integers(0, len(classes) - 1), min_size=1, max_size=6))
    return VideoDataset([VideoEntry(f"v{i}", label, columns={"n": i}) for i, label in enumerate(labels)], classes)


def name_of(data: VideoDataset, entry: VideoEntry) -> str | None:
    return None if entry.label is None else data.class_names[entry.label]


@given(named(), named())
def test_labels_go_by_name_and_those_of_the_first_stay(first: VideoDataset, second: VideoDataset) -> None:
    both = first + second
    assert [name_of(both, entry) for entry in both] == [
        name_of(data, entry) for data in (first, second) for entry in data
    ]
    assert list(both)[: len(first)] == list(first)
    assert both.class_names[: len(first.class_names)] == first.class_names
    assert set(both.class_names) == {*first.class_names, *second.class_names}
    assert [entry.columns for entry in both] == [entry.columns for data in (first, second) for entry in data]


def test_numbers_without_names_stay_as_they_are() -> None:
    both = VideoDataset([VideoEntry("a", 7)]) + VideoDataset([VideoEntry("b", 7), VideoEntry("c")])
    assert [entry.label for entry in both] == [7, 7, None]


def test_numbers_and_names_do_not_mix() -> None:
    with pytest.raises(ConfigurationError, match=r"^b: label 0 has no name, but those of another data set have"):
        VideoDataset([VideoEntry("a", 0)], ["run"]) + VideoDataset([VideoEntry("b", 0)])
    both = VideoDataset([VideoEntry("a", 0)], ["run"]) + VideoDataset([VideoEntry("b")])
    assert ([entry.label for entry in both], both.class_names) == ([0, None], ("run",))


def test_a_column_that_one_lacks_is_absent_in_its_rows() -> None:
    first = VideoDataset([VideoEntry("a", start=1, columns={"x": "1"})])
    second = VideoDataset([VideoEntry("b", stop_seconds=0.5, columns={"y": None})])
    assert list(first + second + first) == [*first, *second, *first]


@given(named(), st.slices(6))
def test_a_slice_is_a_data_set(data: VideoDataset, part: slice) -> None:
    expected = list(data)[part]
    if expected:
        assert list(data[part]) == expected
        assert data[part].class_names == data.class_names
    else:
        with pytest.raises(ConfigurationError, match=r"is (not )?left"):
            data[part]


def test_filter_keeps_the_rows_it_is_told_to() -> None:
    data = VideoDataset([VideoEntry(name, columns={"split": split}) for name, split in (("a", "val"), ("b", "train"))])
    assert [entry.path for entry in data.filter(lambda entry: entry.columns["split"] == "val")] == ["a"]
    with pytest.raises(ConfigurationError, match="none of the 2 rows is left"):
        data.filter(lambda entry: False)


def test_equal_data_sets_have_equal_hashes() -> None:
    one, other = (VideoDataset.from_paths(["a", "b"], ["x", "y"]) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != one[:1]
    assert one != VideoDataset(one, ["y", "x"])


def test_a_column_can_be_had_whole() -> None:
    data = VideoDataset([VideoEntry("a", columns={"w": 1}), VideoEntry("b", columns={"w": 2, "x": 0})])
    assert data.table.column("w") == [1, 2]
    with pytest.raises(ConfigurationError, match=r"^a: has no column 'x'; its columns are 'w'$"):
        data.table.column("x")
    with pytest.raises(ConfigurationError, match=r"^the data set has no column 'z'; its columns are 'w', 'x'$"):
        data.table.column("z")
