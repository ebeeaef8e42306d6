"""The order of an epoch is a permutation, and the ranks together take each of its positions once."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError
from videoloader.sharding import (
    LAST_BATCH,
    batch_positions,
    batch_range,
    num_batches,
    permute,
    shard_of_environment,
)

keys = st.integers(0, 2**64 - 1) | st.integers(0, 3)
clips = st.integers(1, 200)
batch_sizes = st.integers(1, 7)
shards = st.integers(1, 9)


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


@pytest.mark.parametrize(
    ("environment", "shard"),
    [({}, (0, 1)), ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)), ({"RANK": "3", "WORLD_SIZE": "4"}, (3, 4))],
)
def test_shard_of_environment_is_torchruns(monkeypatch, environment, shard):
    set_environment(monkeypatch, environment)
    assert shard_of_environment() == shard


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "1"},
        {"WORLD_SIZE": "2"},
        {"RANK": "", "WORLD_SIZE": ""},
        {"RANK": "one", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "2.0"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "0"},
    ],
)
def test_half_set_or_malformed_environments_are_errors_that_show_both(monkeypatch, environment):
    set_environment(monkeypatch, environment)
    rank, size = environment.get("RANK"), environment.get("WORLD_SIZE")
    with pytest.raises(ConfigurationError) as error:
        shard_of_environment()
    assert str(error.value).endswith(f"got RANK={rank!r}, WORLD_SIZE={size!r}")


def set_environment(monkeypatch, environment):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def deal(num_clips, batch_size, num_shards, last_batch, start=0):
    """positions[batch][shard], checked to be as many batches as promised."""
    arguments = (num_clips, batch_size, num_shards, last_batch)
    return [
        [batch_positions(batch, shard, *arguments, start=start).tolist() for shard in range(num_shards)]
        for batch in range(num_batches(*arguments, start=start))
    ]


def flat(dealt):
    return [position for batch in dealt for shard in batch for position in shard]


def can_be_partial(num_clips, batch_size, num_shards):
    return num_clips >= num_shards and (batch_size > 1 or num_clips % num_shards == 0)


@given(num_clips=clips, batch_size=batch_sizes, num_shards=shards)
def test_partial_deals_every_clip_exactly_once_and_no_empty_batch(num_clips, batch_size, num_shards):
    assume(can_be_partial(num_clips, batch_size, num_shards))
    dealt = deal(num_clips, batch_size, num_shards, "partial")
    assert sorted(flat(dealt)) == list(range(num_clips))
    for batch in dealt:
        sizes = [len(shard) for shard in batch]
        assert 1 <= min(sizes) <= max(sizes) <= batch_size
        assert max(sizes) - min(sizes) <= 1


def test_partial_refuses_exactly_what_cannot_be_dealt_and_names_the_numbers():
    for num_clips, batch_size, num_shards in product(range(1, 30), range(1, 5), range(1, 10)):
        if can_be_partial(num_clips, batch_size, num_shards):
            assert num_batches(num_clips, batch_size, num_shards, "partial") > 0
        else:
            with pytest.raises(ConfigurationError, match=f"^{num_clips} clips .* {num_shards} shards .*fill"):
                num_batches(num_clips, batch_size, num_shards, "partial")


def test_partial_splits_the_last_global_batch_evenly():
    assert deal(11, 4, 2, "partial") == [[[0, 2, 4, 6], [1, 3, 5, 7]], [[8, 10], [9]]]


def test_partial_leaves_a_last_global_batch_alone_that_has_one_clip_for_each_shard():
    assert deal(9, 2, 3, "partial") == [[[0, 3], [1, 4], [2, 5]], [[6], [7], [8]]]


def test_partial_shares_out_the_last_two_global_batches_where_the_last_has_fewer_clips_than_shards():
    assert deal(13, 2, 3, "partial") == [
        [[0, 3], [1, 4], [2, 5]],
        [[6, 9], [7], [8]],
        [[10], [11], [12]],
    ]


@given(num_clips=clips, batch_size=batch_sizes, num_shards=shards)
def test_drop_deals_the_full_global_batches_and_nothing_else(num_clips, batch_size, num_shards):
    dealt = deal(num_clips, batch_size, num_shards, "drop")
    whole = num_clips // (batch_size * num_shards) * batch_size * num_shards
    assert sorted(flat(dealt)) == list(range(whole))
    assert all(len(shard) == batch_size for batch in dealt for shard in batch)


@given(num_clips=clips, batch_size=batch_sizes, num_shards=shards)
def test_fill_deals_full_batches_that_wrap_to_the_start_of_the_epoch(num_clips, batch_size, num_shards):
    dealt = deal(num_clips, batch_size, num_shards, "fill")
    assert all(len(shard) == batch_size for batch in dealt for shard in batch)
    asked = len(flat(dealt))
    assert sorted(flat(dealt)) == sorted(i % num_clips for i in range(asked))
    assert 0 <= asked - num_clips < batch_size * num_shards


@pytest.mark.parametrize("last_batch", LAST_BATCH)
@given(num_clips=clips, batch_size=batch_sizes, num_shards=shards)
def test_batches_are_consecutive_blocks_dealt_strided(last_batch, num_clips, batch_size, num_shards):
    assume(last_batch != "partial" or can_be_partial(num_clips, batch_size, num_shards))
    position = 0
    for number, batch in enumerate(deal(num_clips, batch_size, num_shards, last_batch)):
        begin, end = batch_range(number, num_clips, batch_size, num_shards, last_batch)
        assert begin == position
        for shard, positions in enumerate(batch):
            block = range(begin, begin + batch_size * num_shards if last_batch == "fill" else end)
            assert positions == [i % num_clips for i in block[shard::num_shards]]
        position = end
    assert last_batch == "drop" or position == num_clips


@pytest.mark.parametrize("last_batch", LAST_BATCH)
@given(num_clips=clips, batch_size=batch_sizes, num_shards=shards)
def test_resuming_after_any_batch_deals_the_rest_as_if_nothing_had_happened(
    last_batch, num_clips, batch_size, num_shards
):
    assume(last_batch != "partial" or can_be_partial(num_clips, batch_size, num_shards))
    arguments = (num_clips, batch_size, num_shards, last_batch)
    whole = deal(*arguments)
    for batch in range(len(whole)):
        start = batch_range(batch, *arguments)[1]
        assert deal(*arguments, start=start) == whole[batch + 1 :]


@given(num_clips=clips, batch_size=batch_sizes, before=shards, after=shards, data=st.data())
def test_resuming_with_other_shards_deals_what_is_left(num_clips, batch_size, before, after, data):
    assume(can_be_partial(num_clips, batch_size, before))
    whole = deal(num_clips, batch_size, before, "partial")
    done = data.draw(st.integers(1, len(whole)))
    start = batch_range(done - 1, num_clips, batch_size, before, "partial")[1]
    assume(start == num_clips or can_be_partial(num_clips - start, batch_size, after))
    rest = deal(num_clips, batch_size, after, "partial", start=start)
    assert sorted(flat(whole[:done]) + flat(rest)) == list(range(num_clips))


@pytest.mark.parametrize("last_batch", LAST_BATCH)
def test_a_finished_epoch_has_no_batches_left(last_batch):
    assert num_batches(10, 2, 3, last_batch, start=10) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: num_batches(0, 1, 1, "drop"), "num_clips must be positive, got 0"),
        (lambda: num_batches(1, 0, 1, "drop"), "batch_size must be positive, got 0"),
        (lambda: num_batches(1, 1, -2, "drop"), "num_shards must be positive, got -2"),
        (lambda: num_batches(1, 1, 1, "keep"), "last_batch must be one of partial, drop, fill, got 'keep'"),
        (lambda: num_batches(5, 1, 1, "drop", start=6), r"start must be in \[0, num_clips=5\], got 6"),
        (lambda: num_batches(3, 8, 4, "partial"), "3 clips cannot be dealt once each to 4 shards"),
        (lambda: batch_range(2, 5, 2, 1, "drop"), r"batch must be in \[0, 2\), got 2"),
        (lambda: batch_positions(-1, 0, 5, 2, 1, "fill"), r"batch must be in \[0, 3\), got -1"),
        (lambda: batch_positions(0, 2, 9, 2, 2, "fill"), r"shard_id must be in \[0, 2\), got 2"),
    ],
)
def test_a_bad_argument_is_named(call, message):
    with pytest.raises(ConfigurationError, match=message):
        call()
