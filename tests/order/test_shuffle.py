"""Orders of an epoch: every clip once, from (seed, epoch) alone, with the promised locality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
import pytest
import torch
from clip_tables import table_of_counts
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from videoloader.errors import ConfigurationError
from videoloader.order.by_column import group_clips
from videoloader.order.shuffle import InOrder, Order, SampledClips, ShuffleBlocks, ShuffleClips, ShuffleVideos, order_of

sizes = st.integers(1, 60)
orders = (
    st.sampled_from([InOrder(), ShuffleClips()])
    | st.builds(ShuffleBlocks, sizes, sizes)
    | st.builds(ShuffleVideos, st.integers(1, 9))
)
counts = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)
keys = st.integers(0, 2**64 - 1) | st.integers(0, 3)


def ends_of(counts: list[int]) -> Callable[[], np.ndarray]:
    return lambda: np.cumsum(counts)


def epoch_of(order: Order, counts: list[int], seed: int = 0, epoch: int = 0) -> list[int]:
    clips = sum(counts)
    found = order.of_epoch(clips, ends_of(counts), seed, epoch)(np.arange(order.positions(clips)))
    assert found.dtype == np.int64
    return found.tolist()


@given(order=orders, counts=counts, seed=keys, epoch=keys)
def test_every_clip_stands_at_one_position(order: Order, counts: list[int], seed: int, epoch: int) -> None:
    assert sorted(epoch_of(order, counts, seed, epoch)) == list(range(sum(counts)))


@given(order=orders, counts=counts, epoch=keys, data=st.data())
def test_a_position_is_computed_alone(order: Order, counts: list[int], epoch: int, data: st.DataObject) -> None:
    whole = epoch_of(order, counts, 1, epoch)
    positions = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9))
    some = order.of_epoch(len(whole), ends_of(counts), 1, epoch)(np.array(positions, np.int64))
    assert some.tolist() == [whole[position] for position in positions]


@pytest.mark.parametrize("order", [ShuffleClips(), ShuffleBlocks(4, 64), ShuffleVideos(), ShuffleVideos(3)])
def test_epochs_and_seeds_have_orders_of_their_own(order: Order) -> None:
    shuffled = [epoch_of(order, [5] * 80, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len(set(map(tuple, shuffled))) == 4
    for one in shuffled:
        assert abs(np.corrcoef(one, np.arange(400))[0, 1]) < 0.3


@given(block=st.integers(1, 20), windows=st.integers(1, 5), blocks=st.integers(1, 8), rest=st.integers(0, 99))
def test_a_window_shows_few_blocks(block: int, windows: int, blocks: int, rest: int) -> None:
    window = block * blocks
    clips = window * windows + rest
    order = np.array(epoch_of(ShuffleBlocks(block, window), [clips]))
    for start in range(0, window * windows, window):
        # Neighbours in the data set, which goes round; each block may end where another begins.
        runs = np.sort(order[start : start + window])
        assert (np.diff(runs) > 1).sum() + 1 <= blocks + 1


def test_blocks_are_mixed_within_their_window_only() -> None:
    order = np.array(epoch_of(ShuffleBlocks(block=10, window=100), [1000]))
    steps = np.abs(np.diff(order))
    assert (steps == 1).mean() < 0.1
    assert np.array_equal(np.sort(order), np.arange(1000))


def test_no_part_of_the_data_set_always_comes_last() -> None:
    last = {epoch_of(ShuffleBlocks(block=64, window=16), [100], epoch=epoch)[-1] // 25 for epoch in range(40)}
    assert last == {0, 1, 2, 3}


def test_the_order_of_a_huge_data_set_needs_no_memory() -> None:
    order = ShuffleBlocks().of_epoch(2**47, ends_of([2**47]), 0, 0)
    positions = np.append(np.arange(5000), 2**47 - 1 - np.arange(5000))
    assert len(np.unique(order(positions))) == 10_000


@given(counts=counts, together=st.integers(1, 5), epoch=keys)
def test_the_clips_of_a_video_come_together(counts: list[int], together: int, epoch: int) -> None:
    video = np.repeat(np.arange(len(counts)), counts)
    order = epoch_of(ShuffleVideos(together), counts, 3, epoch)
    if together == 1:
        runs = [list(run) for _, run in groupby(order, key=lambda clip: video[clip])]
        assert len(runs) == np.count_nonzero(counts)
        assert all(run == list(range(run[0], run[-1] + 1)) for run in runs)
    place = {clip: position for position, clip in enumerate(order)}
    spread = [max(at) - min(at) + 1 for at in ([place[c] for c in np.flatnonzero(video == v)] for v in set(video))]
    assert max(spread) <= sum(sorted(counts)[-together:])


def test_videos_that_come_together_are_mixed() -> None:
    video = np.array(epoch_of(ShuffleVideos(together=8), [16] * 32)) // 16
    for start in range(0, 512, 128):
        assert len(set(video[start : start + 128])) == 8
        assert len(set(video[start : start + 16])) > 3


def test_rows_of_one_file_that_follow_one_another_are_one_video() -> None:
    table = table_of_counts([2, 3, 4, 0, 5], paths=["a", "a", "b", "b", "a"])
    groups = group_clips(table, None)
    assert groups.video_ends(0, 14).tolist() == [5, 9, 14]
    assert groups.video_ends(3, 8).tolist() == [2, 5]
    assert groups.video_ends(9, 10).tolist() == [1]


@pytest.mark.parametrize(
    "make", [lambda: ShuffleBlocks(block=0), lambda: ShuffleBlocks(window=0), lambda: ShuffleVideos(0)]
)
def test_sizes_must_be_positive(make: Callable[[], Order]) -> None:
    with pytest.raises(ConfigurationError, match="positive"):
        make()


SAMPLERS = [
    lambda: RandomSampler(range(20)),
    lambda: RandomSampler(range(20), generator=torch.Generator()),
    lambda: SubsetRandomSampler(range(3, 12)),
    lambda: WeightedRandomSampler([1.0, 2.0] * 10, 30),
    lambda: DistributedSampler(range(20), num_replicas=1, rank=0),
]


@pytest.mark.parametrize("make", SAMPLERS)
def test_a_sampler_gives_the_same_numbers_in_every_process_and_others_in_every_epoch(
    make: Callable[[], torch.utils.data.Sampler[int]],
) -> None:
    one, other = order_of(make()), order_of(make())
    torch.manual_seed(1)
    first = [epoch_of(one, [20], 4, epoch) for epoch in range(3)]
    torch.manual_seed(2)
    again = [epoch_of(other, [20], 4, epoch) for epoch in (2, 0, 1)]
    assert first == [again[1], again[2], again[0]]
    assert len(set(map(tuple, first))) == 3
    assert one.identity(20, 4, 1) == other.identity(20, 4, 1) != one.identity(20, 4, 2)


def test_drawing_an_epoch_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    epoch_of(order_of(RandomSampler(range(20))), [20])
    assert torch.equal(torch.rand(3), expected)


def test_anything_sized_that_gives_clip_numbers_is_a_sampler() -> None:
    assert epoch_of(order_of([3, 3, 0]), [4]) == [3, 3, 0]
    assert epoch_of(order_of(np.array([2, 1])), [4]) == [2, 1]
    assert epoch_of(order_of(SequentialSampler(range(4))), [4]) == [0, 1, 2, 3]


class OneTooFew:
    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter([0, 1])


@pytest.mark.parametrize(
    "sampler",
    [
        [4],
        [-1, 0],
        [0.5],
        ["a"],
        [[0, 1], [2]],
        [torch.zeros(1, requires_grad=True)],
        BatchSampler(SequentialSampler(range(4)), 2, False),
        OneTooFew(),
    ],
)
def test_what_gives_no_clip_numbers_is_refused(sampler: object) -> None:
    with pytest.raises(ConfigurationError, match="the sampler"):
        epoch_of(order_of(sampler), [4])  # type: ignore[arg-type]


def test_a_sampler_that_deals_to_ranks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="2 ranks"):
        SampledClips(DistributedSampler(range(9), num_replicas=2, rank=0))


@pytest.mark.parametrize("shuffle", [None, 1, iter([0, 1]), ShuffleVideos, RandomSampler])
def test_what_is_no_order_is_refused(shuffle: object) -> None:
    with pytest.raises(ConfigurationError, match="shuffle must be"):
        order_of(shuffle)  # type: ignore[arg-type]
