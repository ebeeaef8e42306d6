"""A permutation of any size, each value of which is computed on its own, without structure in the result."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError
from videoloader.permutation import permute, permute_within

keys = st.integers(0, 2**64 - 1) | st.integers(0, 3)


def chi_square(counts, expected):
    return ((np.asarray(counts) - expected) ** 2 / expected).sum()


@given(size=st.integers(1, 700), seed=keys, epoch=keys)
def test_permute_is_bijective(size, seed, epoch):
    assert sorted(permute(np.arange(size), size, seed, epoch).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [*range(1, 20), 2**16 - 1, 2**16, 2**16 + 1])
def test_permute_is_bijective_around_powers_of_two(size):
    assert np.bincount(permute(np.arange(size), size, 1, 2), minlength=size).tolist() == [1] * size


@pytest.mark.parametrize("size", [2**48, 2**48 - 1, 2**47 + 1])
def test_permute_needs_no_memory_for_the_size(size):
    index = np.concatenate([np.arange(5000), size - 1 - np.arange(5000)])
    sent = permute(index, size, 0, 0)
    assert len(np.unique(sent)) == len(index)
    assert 0 <= sent.min() < sent.max() < size
    counts = np.histogram(sent, 64, (0, size))[0]
    assert chi_square(counts, len(index) / 64) < 63 + 6 * 126**0.5


@given(size=st.integers(1, 2**48), seed=keys, epoch=keys, data=st.data())
def test_permute_sends_an_index_to_the_same_place_alone_or_among_others(size, seed, epoch, data):
    index = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    together = permute(index, size, seed, epoch)
    assert together.tolist() == [int(permute(one, size, seed, epoch)) for one in index]
    assert ((together >= 0) & (together < size)).all()


def test_permute_keeps_the_shape_and_gives_int64():
    sent = permute(np.arange(6, dtype=np.uint8).reshape(2, 3), 6, 0, 0)
    assert (sent.shape, sent.dtype) == ((2, 3), np.int64)
    assert permute([], 6, 0, 0).shape == (0,)


@given(a=st.tuples(keys, keys), b=st.tuples(keys, keys))
def test_permute_differs_by_seed_and_by_epoch(a, b):
    first, other = permute(np.arange(300), 300, *a), permute(np.arange(300), 300, *b)
    assert (first == other).all() == (a == b)
    assert a == b or (first == other).sum() < 20  # one is expected; 20 have odds of 1e-19


@pytest.mark.parametrize("size", [2, 3, 4])
def test_permute_gives_all_orders_of_a_few_clips_equally_often(size):
    orders = {order: 0 for order in permutations(range(size))}
    for epoch in range(3000):
        orders[tuple(permute(np.arange(size), size, 5, epoch).tolist())] += 1
    degrees = len(orders) - 1
    assert chi_square(list(orders.values()), 3000 / len(orders)) < degrees + 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("size", [5, 10, 33])
def test_permute_sends_each_index_everywhere_equally_often(size):
    sent = np.array([permute(np.arange(size), size, 0, epoch) for epoch in range(2000)])
    counts = np.array([np.bincount(column, minlength=size) for column in sent.T])
    degrees = (size - 1) ** 2
    assert chi_square(counts, 2000 / size) < degrees + 5 * (2 * degrees) ** 0.5


def test_permute_leaves_no_trace_of_the_order():
    size = 10_000
    sent = permute(np.arange(size), size, 0, 0)
    steps = np.diff(sent) % size  # neighbours lie at every distance equally often
    assert chi_square(np.histogram(steps, 50, (0, size))[0], (size - 1) / 50) < 49 + 5 * 98**0.5
    assert abs(np.corrcoef(np.arange(size), sent)[0, 1]) < 0.05
    assert (sent == np.arange(size)).sum() < 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], 0, 0, 0), "size must be .*, got 0"),
        (([0], 2**48 + 1, 0, 0), "size must be .*, got 281474976710657"),
        (([0], 1, -1, 0), "seed must be .*, got -1"),
        (([0], 1, 0, 2**64), "epoch must be .*, got 18446744073709551616"),
        (([3], 3, 0, 0), r"index must be integers in \[0, 3\), got \[3\]"),
        (([-1], 3, 0, 0), r"index must be .*, got \[-1\]"),
        (([0.5], 3, 0, 0), r"index must be .*, got \[0.5\]"),
    ],
)
def test_permute_names_a_bad_argument(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        permute(*arguments)


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=keys, epoch=keys)
def test_permute_within_is_bijective_for_every_size_and_stream(sizes, seed, epoch):
    index = np.concatenate([np.arange(size) for size in sizes])
    stream = np.repeat(np.arange(len(sizes)), sizes)
    sent = permute_within(index, np.repeat(sizes, sizes), seed, epoch, stream)
    for number, size in enumerate(sizes):
        assert sorted(sent[stream == number].tolist()) == list(range(size))


def test_permute_within_does_not_depend_on_company_and_differs_by_stream():
    index, size, stream = np.arange(1000), np.full(1000, 1000), np.zeros(1000, np.int64)
    sent = permute_within(index, size, 1, 2, stream)
    assert permute_within(index[7:9], size[7:9], 1, 2, stream[7:9]).tolist() == sent[7:9].tolist()
    for other in (permute_within(index, size, 1, 2, stream + 1), permute(index, 1000, 1, 2)):
        assert (other == sent).sum() < 20
