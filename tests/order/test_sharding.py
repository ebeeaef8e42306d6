"""Each rank's part of an epoch: every lane's clips once, and the same number of batches for all ranks."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError
from videoloader.order.sharding import LAST_BATCH, Deal, Left, even_bounds

clips = st.integers(1, 200)
batch_sizes = st.integers(1, 7)
ranks_of_a_lane = st.integers(1, 9)
lanes = st.lists(clips, min_size=1, max_size=5).map(np.array)


def batches_of(sizes, ranks, batch_size, last_batch):
    """int64[batches + 1, S]: how many clips of each lane are dealt before each batch, and in the end."""
    deal, sizes = Deal(len(sizes), ranks, batch_size, last_batch), np.array(sizes)
    return np.array([deal.taken(batch, sizes) for batch in range(deal.num_batches(sizes) + 1)])


def can_be_partial(sizes, ranks, batch_size):
    return min(sizes) >= ranks * -(-max(sizes) // (batch_size * ranks))


@given(sizes=lanes, ranks=ranks_of_a_lane, batch_size=batch_sizes)
def test_partial_deals_every_clip_and_every_rank_a_clip_in_every_batch(sizes, ranks, batch_size):
    assume(can_be_partial(sizes, ranks, batch_size))
    before = batches_of(sizes, ranks, batch_size, "partial")
    assert before[0].tolist() == [0] * len(sizes)
    assert before[-1].tolist() == sizes.tolist()
    each = np.diff(before, axis=0)
    assert ranks <= each.min() <= each.max() <= batch_size * ranks


def test_partial_refuses_exactly_what_cannot_be_dealt_and_names_the_numbers():
    for size, batch_size, ranks in product(range(1, 30), range(1, 5), range(1, 10)):
        if can_be_partial([size], ranks, batch_size):
            assert Deal(1, ranks, batch_size, "partial").num_batches(np.array([size])) > 0
        else:
            with pytest.raises(ConfigurationError, match=f"^{size} clips? .* {ranks} ranks .*fill"):
                Deal(1, ranks, batch_size, "partial").num_batches(np.array([size]))


@pytest.mark.parametrize(
    ("sizes", "ranks", "batch_size", "batches"),
    [
        ([11], 2, 4, [[8, 3]]),
        ([9], 3, 2, [[6, 3]]),
        # Fewer clips than ranks share two batches with those of the batch before.
        ([13], 3, 2, [[6, 4, 3]]),
        # Lanes of nearly the same size: full batches, and the last two are shared where one has no clip for the last.
        ([9, 8], 1, 4, [[4, 4, 1], [4, 2, 2]]),
        # A lane that is far shorter is spread evenly.
        ([16, 9], 1, 4, [[4, 4, 4, 4], [3, 2, 2, 2]]),
    ],
)
def test_partial_batches_are_full_but_for_the_last_ones(sizes, ranks, batch_size, batches):
    assert np.diff(batches_of(sizes, ranks, batch_size, "partial"), axis=0).T.tolist() == batches


@given(sizes=lanes, ranks=ranks_of_a_lane, batch_size=batch_sizes)
def test_drop_deals_full_batches_as_long_as_all_lanes_have_them(sizes, ranks, batch_size):
    each = np.diff(batches_of(sizes, ranks, batch_size, "drop"), axis=0)
    assert (each == batch_size * ranks).all()
    assert 0 <= min(sizes) - len(each) * batch_size * ranks < batch_size * ranks


@given(sizes=lanes, ranks=ranks_of_a_lane, batch_size=batch_sizes)
def test_fill_deals_everything_in_as_few_batches_as_the_longest_lane_needs(sizes, ranks, batch_size):
    before = batches_of(sizes, ranks, batch_size, "fill")
    assert (np.diff(before, axis=0) == batch_size * ranks).all()
    assert 0 <= before[-1].min() - max(sizes) < batch_size * ranks


@given(sizes=lanes, ranks=ranks_of_a_lane, batch_size=batch_sizes)
def test_uneven_deals_full_batches_as_long_as_a_lane_has_clips(sizes, ranks, batch_size):
    before = batches_of(sizes, ranks, batch_size, "uneven")
    assert before[-1].tolist() == sizes.tolist()
    assert ((np.diff(before, axis=0) == batch_size * ranks) | (before[1:] == sizes)).all()


@given(size=clips, parts=st.integers(1, 300))
def test_even_parts_differ_by_one_at_most(size, parts):
    bounds = even_bounds(size, parts)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, size, parts + 1)
    assert {size // parts, -(-size // parts)} >= set(np.diff(bounds).tolist())


@given(size=st.integers(0, 100), cuts=st.lists(st.tuples(st.integers(1, 6), st.data()), max_size=4))
def test_what_is_left_is_what_was_not_taken(size, cuts):
    left, expected = Left.whole(size), list(range(size))
    for parts, data in cuts:
        bounds = even_bounds(len(left), parts)
        taken = np.array([data.draw(st.integers(0, int(lane))) for lane in np.diff(bounds)])
        begin, end = (bounds[:-1] + taken).tolist(), bounds[1:].tolist()
        expected = [each for a, b in zip(begin, end, strict=True) for each in expected[a:b]]
        left = left.after(bounds, taken)
        assert left.at(np.arange(len(left))).tolist() == expected
        assert left.below(np.arange(size + 1)).tolist() == [
            sum(each < position for each in expected) for position in range(size + 1)
        ]


@given(
    st.builds(
        Deal,
        st.integers(1, 9999),
        st.integers(1, 9999),
        st.integers(1, 999),
        st.sampled_from(list(LAST_BATCH)),
        st.integers(0, 2**40),
    )
)
def test_a_deal_is_read_from_its_text(deal):
    assert Deal.parse(str(deal)) == deal


@pytest.mark.parametrize(
    "text",
    ["", "1x1 drop 3", "1x1x1 keep 3", "1x0x1 drop 3", "1x1x1 drop -3", "99999999x1x1 drop 3", "1x1x1 drop", "x"],
)
def test_another_text_is_refused(text):
    with pytest.raises(ConfigurationError, match="damaged"):
        Deal.parse(text)


@pytest.mark.parametrize("last_batch", LAST_BATCH)
def test_nothing_left_is_no_batch(last_batch):
    assert Deal(1, 3, 2, last_batch).num_batches(np.array([0])) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 1, 0, "drop"), "batch_size must be a positive integer, got 0"),
        (([1], -2, 1, "drop"), "ranks must be a positive integer, got -2"),
        (([1], 1, 1, "keep"), "last_batch must be one of partial, drop, fill, uneven, got 'keep'"),
        (([3], 4, 8, "partial"), "3 clips cannot be dealt once each to 4 ranks in 1 batch of 1 to 8 each: use"),
    ],
)
def test_a_bad_argument_is_named(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        Deal(1, *arguments[1:]).num_batches(np.array(arguments[0]))


@pytest.mark.parametrize(
    ("lanes", "ranks", "sizes", "message"),
    [
        (2, 1, [0, 1], "1 clip cannot be dealt once each to 2 ranks in 1 batch of 1 to 2 each: use"),
        (2, 2, [1, 1], "2 clips cannot be dealt once each to 4 ranks in 1 batch of 1 to 2 each: use"),
        (2, 1, [40, 2], "42 clips … 2 ranks in 20 batches of 1 to 2 each, as only 2 of them are for one rank: use"),
        (2, 3, [40, 8], "48 clips … 6 ranks in 7 batches of 1 to 2 each, as only 8 of them are for 3 ranks: use"),
    ],
)
def test_the_clips_and_ranks_of_all_lanes_are_told(lanes, ranks, sizes, message):
    with pytest.raises(ConfigurationError, match=re.escape(message).replace("…", ".*")):
        Deal(lanes, ranks, 2, "partial").num_batches(np.array(sizes))
