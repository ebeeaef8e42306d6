"""Balanced, weighted and mixed data sets: how often each row comes."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ConfigurationError

seeds = st.integers(0, 2**64 - 1)


def numbered(count: int, name: str = "v") -> VideoDataset:
    return VideoDataset.from_paths([f"{name}{i}" for i in range(count)])


def times(data: VideoDataset) -> Counter[str]:
    return Counter(entry.path for entry in data)


class TestBalanced:
    @given(labels=st.lists(st.integers(0, 6), min_size=1, max_size=40), rows=st.none() | st.integers(1, 30), seed=seeds)
    def test_each_class_has_as_many_rows(self, labels: list[int], rows: int | None, seed: int) -> None:
        data = VideoDataset.from_paths([str(i) for i in range(len(labels))], labels)
        balanced = data.balanced(rows_per_class=rows, seed=seed)
        largest = max(Counter(labels).values())
        assert Counter(entry.label for entry in balanced) == dict.fromkeys(set(labels), rows or largest)
        for label in set(labels):
            of_class = [times(balanced)[str(i)] for i, other in enumerate(labels) if other == label]
            assert max(of_class) - min(of_class) <= 1
        assert [int(entry.path) for entry in balanced] == sorted(int(entry.path) for entry in balanced)
        assert balanced == data.balanced(rows_per_class=rows, seed=seed)

    def test_the_seed_chooses_who_comes_once_more(self) -> None:
        data = VideoDataset.from_paths([str(i) for i in range(30)], [0] * 17 + [1] * 13)
        assert len({tuple(sorted(times(data.balanced(seed=seed)).items())) for seed in range(20)}) > 10

    def test_nonsense_is_refused(self) -> None:
        data = VideoDataset([VideoEntry("a", 1), VideoEntry("b")])
        with pytest.raises(ConfigurationError, match=r"^b: has no label"):
            data.balanced()
        with pytest.raises(ConfigurationError, match="rows_per_class must be a positive integer, got 0"):
            data[:1].balanced(rows_per_class=0)


class TestWeighted:
    @given(
        weights=st.lists(
            st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.integers(0, 5)), min_size=1, max_size=30
        ).filter(any),
        rows=st.integers(1, 200),
        seed=seeds,
    )
    def test_rows_come_in_proportion_rounded_to_a_neighbour(self, weights: list[float], rows: int, seed: int) -> None:
        weighted = numbered(len(weights)).weighted(weights, rows=rows, seed=seed)
        assert len(weighted) == rows
        for row, weight in enumerate(weights):
            assert abs(times(weighted)[f"v{row}"] - rows * weight / math.fsum(weights)) < 1 + 1e-6
            assert weight or not times(weighted)[f"v{row}"]

    def test_the_rounding_is_fair(self) -> None:
        data, weights = numbered(4), [0.1, 0.6, 0.3, 1.5]
        total = Counter[str]()
        for seed in range(2000):
            total += times(data.weighted(weights, rows=3, seed=seed))
        found = np.array([total[f"v{row}"] for row in range(4)]) / 2000
        np.testing.assert_allclose(found, np.array(weights) * 3 / 2.5, atol=0.05)

    @given(st.integers(1, 60), seeds)
    def test_equal_weights_change_nothing(self, count: int, seed: int) -> None:
        data = numbered(count)
        assert data.weighted([0.1] * count, seed=seed) == data

    def test_weights_may_stand_in_a_column_as_text(self) -> None:
        data = VideoDataset([VideoEntry("a", columns={"w": "3"}), VideoEntry("b", columns={"w": "1"})])
        assert times(data.weighted("w", rows=4)) == {"a": 3, "b": 1}

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([1], "one for each of 2 rows, got 1"),
            ([1, -1], "v1: row 1: a weight must be a number of at least 0, got -1"),
            ([1, math.nan], "v1: row 1: .* got nan"),
            (["x", 1], "v0: row 0: .* got 'x'"),
            (["1_0", 1], "v0: row 0: .* got '1_0'"),
            ([0, 0], "the sum of the weights must be positive and finite"),
            ([1.7e308, 1.7e308], "the sum of the weights must be positive and finite"),
            ("w", "the data set has no column 'w'; its columns are none"),
        ],
    )
    def test_nonsense_is_refused(self, weights: list[float] | str, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            numbered(2).weighted(weights)


class TestMix:
    @given(
        parts=st.lists(
            st.tuples(st.integers(1, 20), st.sampled_from([1, 2, 0.1, 0.3, 0.7, 0.25])), min_size=1, max_size=4
        ),
        seed=seeds,
    )
    def test_lengths_are_in_the_ratios_and_no_row_is_lost(self, parts: list[tuple[int, float]], seed: int) -> None:
        sets = [numbered(count, f"{number}:") for number, (count, _) in enumerate(parts)]
        mixed = VideoDataset.mix(sets, [ratio for _, ratio in parts], seed=seed)
        shares = [Fraction(str(ratio)) for _, ratio in parts]
        for number, (count, _) in enumerate(parts):
            own = Counter({path: n for path, n in times(mixed).items() if path.startswith(f"{number}:")})
            assert len(own) == count
            assert max(own.values()) - min(own.values()) <= 1
            assert abs(own.total() - len(mixed) * shares[number] / sum(shares)) < 1
        # One row less, and some data set would lose one.
        needed = [Fraction(count) * sum(shares) / share for (count, _), share in zip(parts, shares, strict=True)]
        assert len(mixed) == math.ceil(max(needed))

    def test_decimals_mean_what_is_written(self) -> None:
        mixed = VideoDataset.mix([numbered(700, "a"), numbered(300, "b")], ratios=[0.7, 0.3])
        assert len(mixed) == 1000
        assert mixed == numbered(700, "a") + numbered(300, "b")

    def test_the_number_of_rows_may_be_given(self) -> None:
        mixed = VideoDataset.mix([numbered(100, "a"), numbered(3, "b")], ratios=(2, 1), rows=10)
        assert [sum(path.startswith(name) for path in times(mixed).elements()) for name in "ab"] == [7, 3]

    def test_equal_data_sets_keep_their_own_ratios(self) -> None:
        mixed = VideoDataset.mix([numbered(4), numbered(4), numbered(2, "b")], ratios=np.array([0.25, 0.25, 0.5]))
        assert times(mixed) == {f"v{row}": 2 for row in range(4)} | {"b0": 4, "b1": 4}

    def test_a_dict_is_taken_as_before(self) -> None:
        one, other = numbered(4, "a"), numbered(3, "b")
        assert VideoDataset.mix({one: 1, other: 2}) == VideoDataset.mix([one, other], [1, 2])

    @pytest.mark.parametrize(
        ("datasets", "ratios"),
        [
            ([], []),
            ({}, None),
            (numbered(2), numbered(3)),
            ([numbered(2), numbered(3)], None),
            ([numbered(2), numbered(3)], [1]),
            ([numbered(2), numbered(3)], 0.5),
            ([["a.mp4"], numbered(3)], [1, 1]),
            ({numbered(2): 1}, [1]),
        ],
    )
    def test_data_sets_without_a_ratio_each_are_refused(self, datasets: Any, ratios: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"mix takes .* as mix\(\[a, b\], ratios=\[0.7, 0.3\]\), got"):
            VideoDataset.mix(datasets, ratios)

    @pytest.mark.parametrize(
        ("ratios", "rows", "message"),
        [
            ([1, 0], None, r"ratios must be positive numbers, got \[1, 0\]"),
            ([1, math.nan], None, "ratios must be positive"),
            ([1, 1], 0, r"rows must be an integer in \[1, 268435456\], got 0"),
            ([100, 1], 3, "rows=3 is too small: the data set with ratio 1 of 101"),
        ],
    )
    def test_nonsense_is_refused(self, ratios: list[float], rows: int | None, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset.mix([numbered(2, f"{i}:") for i in range(len(ratios))], ratios, rows=rows)


def test_more_rows_than_memory_holds_are_refused() -> None:
    data = numbered(10, "a")
    with pytest.raises(ConfigurationError, match=r"only with 10000000001 rows: give a number of rows="):
        VideoDataset.mix([data, data[:1]], [10**10, 1])
    for repeat in (
        lambda: VideoDataset.mix([data, data], [1, 1], rows=10**12),
        lambda: data.weighted([1] * 10, rows=10**12),
    ):
        with pytest.raises(ConfigurationError, match=r"rows must be an integer in \[1, 268435456\]"):
            repeat()
