"""Columns of integers: all come back, and those that videos have are small."""

import numpy as np
import pytest
from any_index import columns
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.store.columns import pack_column, pack_number, unpack_column, unpack_number


@given(st.integers(0, 300).flatmap(lambda size: columns(np.int64, size)), st.binary(max_size=3))
def test_every_column_comes_back(values, before):
    packed = pack_column(values)
    found, end = unpack_column(before + packed + b"more", len(before))
    assert found.dtype == np.int64
    assert found.tolist() == values.tolist()
    assert end == len(before) + len(packed)


@given(st.integers(-(2**100), 2**100))
def test_every_number_comes_back(value):
    packed = pack_number(value)
    assert unpack_number(packed + b"\xff", 0) == (value, len(packed))


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (np.full(10_000, 7), 5),
        (np.arange(10_000) * 512 + 2**40, 14),
        (np.arange(10_000) % 2, 10_000 // 8 + 5),
        (np.where(np.arange(10_000) % 250 == 0, 1, 0), 150),  # keyframes: mostly their distance
        (np.where(np.arange(10_000) % 250 == 0, 90_000, np.arange(10_000) * 7919 % 5000), 20_400),  # packet sizes
    ],
)
def test_what_is_regular_is_small(values, size):
    assert len(pack_column(values)) <= size


@given(st.integers(2, 60).flatmap(lambda size: columns(np.int64, size)), st.data())
def test_a_column_cut_off_is_refused(values, data):
    packed = pack_column(values)
    with pytest.raises((IndexError, ValueError)):
        unpack_column(packed[: data.draw(st.integers(0, len(packed) - 1))], 0)


@pytest.mark.parametrize("length", [b"\xff" * 40, pack_number(-1), pack_number(1 << 40)])
def test_a_length_that_cannot_be_is_refused(length):
    with pytest.raises(ValueError, match=r"without end|a column of"):
        unpack_column(b"\0" + length + b"\0", 0)
