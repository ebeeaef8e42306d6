"""Columns return the values that were put in, however they are stored."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset.columns import ABSENT, Column, PackedStrings, join, pack, plain, take

# Lone surrogates are what Python makes of file names that are not UTF-8.
names = st.text(st.characters(exclude_categories=[]))
texts = st.lists(names, max_size=8)
values = st.one_of(
    texts,
    st.lists(st.floats(allow_nan=False), max_size=8),
    st.lists(st.integers(), max_size=8),
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.just([1, 2])), max_size=8),
)


def listed(column: Column) -> list[Any]:
    return list(plain(column))


@given(texts)
def test_strings_are_a_sequence(given: list[str]) -> None:
    strings = PackedStrings(given)
    assert list(strings) == given
    assert [strings[i] for i in range(-len(given), len(given))] == given + given
    assert strings[1:4] == given[1:4]
    assert strings[::-2] == given[::-2]
    with pytest.raises(IndexError):
        strings[len(given)]
    with pytest.raises(IndexError):
        strings[-len(given) - 1]


@given(st.lists(values, min_size=1, max_size=4), st.data())
def test_values_keep_their_type_through_joins_and_choices(parts: list[list[Any]], data: st.DataObject) -> None:
    joined = join([pack(part) for part in parts])
    expected = [value for part in parts for value in part]
    assert listed(joined) == expected
    assert list(map(type, listed(joined))) == list(map(type, expected))
    rows = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=10) if expected else st.just([]))
    assert listed(take(joined, np.array(rows, np.int64))) == [expected[row] for row in rows]


def test_absence_survives_another_process() -> None:
    assert pickle.loads(pickle.dumps([ABSENT]))[0] is ABSENT


@given(st.sampled_from(["", "a/", "é\udcff/"]), st.lists(names, min_size=1), st.data())
def test_the_start_of_all_is_found_and_left_out(folder: str, given: list[str], data: st.DataObject) -> None:
    strings = PackedStrings(f"{folder}x{name}" for name in given)
    encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
    start = os.path.commonprefix(encoded)  # noqa: RUF071  # byte by byte
    assert strings.common_start() == start
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(given) - 1), min_size=1))))
    expected = b"".join(encoded[row][len(start) :] + b"\0" for row in rows.tolist())
    assert strings.ended_with_zeros(rows, len(start)) == expected
