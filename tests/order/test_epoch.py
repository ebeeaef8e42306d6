"""Together all ranks see every clip of an epoch once, even when it is resumed with other ranks."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from clip_tables import table_of_counts
from hypothesis import assume, given
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError
from videoloader.order.by_column import ByColumn
from videoloader.order.clip_table import ClipTable
from videoloader.order.epoch import DEALINGS, Epochs, EpochShard
from videoloader.order.sharding import LAST_BATCH as TREATMENTS
from videoloader.order.shuffle import InOrder, Order, SampledClips, ShuffleBlocks, ShuffleClips, ShuffleVideos

LAST_BATCH = list(TREATMENTS)

NODES = ByColumn("node")


@dataclass(frozen=True)
class World:
    """Some ranks and what each makes batches of."""

    ranks: int
    batch_size: int
    last_batch: str = "partial"
    sharding: Any = "strided"

    @property
    def together(self) -> int:
        return self.ranks * self.batch_size

    def plans(
        self, table: ClipTable, order: Order, epoch: int, state: dict[str, Any] | None = None
    ) -> list[EpochShard]:
        """Of each rank."""
        each = [
            Epochs(table, order, 3, rank, self.ranks, self.batch_size, self.last_batch, self.sharding)
            for rank in range(self.ranks)
        ]
        plans = [epochs.epoch(epoch) if state is None else epochs.resume(state) for epochs in each]
        assert len({plan.rounds for plan in plans}) == 1, "a rank would wait for ever"
        for plan in plans:
            if self.last_batch == "uneven":
                filled = [batch for batch in range(plan.rounds) if len(plan.clips(batch))]
                assert filled == list(range(len(plan))), "empty batches come last"
            else:
                assert len(plan) == plan.rounds
        return plans


def clips_of(plans: list[EpochShard], batches: int) -> list[list[list[int]]]:
    """clips[batch][rank]."""
    return [[plan.clips(batch).tolist() for plan in plans] for batch in range(batches)]


def flat(batches: list[list[list[int]]]) -> list[int]:
    return [clip for batch in batches for of_rank in batch for clip in of_rank]


def on_their_turn(plans: list[EpochShard], batches: int) -> list[int]:
    """The clips that are not marked as repeated."""
    pairs = [(plan.clips(batch), plan.repeated(batch)) for batch in range(batches) for plan in plans]
    return [clip for clips, repeated in pairs for clip in clips[~repeated].tolist()]


def state_after(plans: list[EpochShard], batches: int) -> dict[str, Any]:
    """The state that all ranks have, having gone through a file."""
    texts = {json.dumps(plan.state(batches)) for plan in plans}
    assert len(texts) == 1
    text = texts.pop()
    assert len(text) < 1000
    return json.loads(text)


orders = st.sampled_from(
    [InOrder(), ShuffleClips(), ShuffleBlocks(3, 10), ShuffleBlocks(7, 5), ShuffleVideos(), ShuffleVideos(3)]
)
counts = st.lists(st.integers(0, 25), min_size=1, max_size=8).filter(any)
epochs = st.integers(0, 5)


@st.composite
def worlds(draw: st.DrawFn, shardings: tuple[Any, ...], last_batches: tuple[str, ...] = ("partial",)) -> World:
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    return World(*shape, draw(st.sampled_from(last_batches)), draw(st.sampled_from(shardings)))


def plans_or_assume(world: World, *arguments: Any) -> list[EpochShard]:
    """Those of a world; examples are others where so few clips cannot be dealt to it."""
    try:
        return world.plans(*arguments)
    except ConfigurationError as error:
        assume("cannot be dealt" not in str(error))
        raise


@pytest.mark.parametrize("sharding", DEALINGS)
@given(counts=counts, order=orders, epoch=epochs, ranks=st.integers(1, 9), batch_size=st.integers(1, 5))
def test_one_world_deals_every_clip_once(
    sharding: str, counts: list[int], order: Order, epoch: int, ranks: int, batch_size: int
) -> None:
    table = table_of_counts(counts)
    plans = plans_or_assume(World(ranks, batch_size, "partial", sharding), table, order, epoch)
    batches = clips_of(plans, plans[0].rounds)
    assert sorted(flat(batches)) == list(range(sum(counts)))
    sizes = [[len(of_rank) for of_rank in batch] for batch in batches]
    assert all(1 <= min(batch) <= max(batch) <= batch_size for batch in sizes)
    assert all(batch == [batch_size] * ranks for batch in sizes[:-2])


@pytest.mark.parametrize("sharding", DEALINGS)
@given(counts=counts, order=orders, epoch=epochs, ranks=st.integers(1, 40), batch_size=st.integers(1, 5))
def test_uneven_deals_any_number_of_clips_once_to_any_number_of_ranks(
    sharding: str, counts: list[int], order: Order, epoch: int, ranks: int, batch_size: int
) -> None:
    plans = World(ranks, batch_size, "uneven", sharding).plans(table_of_counts(counts), order, epoch)
    assert sorted(flat(clips_of(plans, plans[0].rounds))) == list(range(sum(counts)))
    lengths = [len(plan) for plan in plans]
    assert max(lengths) - min(lengths) <= 1
    for plan in plans:
        sizes = [len(plan.clips(batch)) for batch in range(len(plan))]
        assert sizes[:-1] == [batch_size] * (len(sizes) - 1)


def test_48_clips_go_to_5_ranks_one_by_one() -> None:
    plans = World(5, 1, "uneven").plans(table_of_counts([48]), ShuffleClips(), 0)
    assert [len(plan) for plan in plans] == [10, 10, 10, 9, 9]


def test_a_smaller_node_ends_earlier_where_it_is_uneven() -> None:
    table = table_of_counts([40, 9], [{"node": 0}, {"node": 1}])
    plans = World(4, 4, "uneven", NODES).plans(table, ShuffleClips(), 0)
    assert [len(plan) for plan in plans] == [5, 5, 2, 1]
    assert [len(plan.clips(1)) for plan in plans] == [4, 4, 1, 0]


@pytest.mark.parametrize("sharding", DEALINGS)
@given(counts=counts, order=orders, epoch=epochs, ranks=st.integers(1, 9), batch_size=st.integers(1, 5))
def test_drop_loses_less_than_a_batch_of_all_and_fill_repeats_less(
    sharding: str, counts: list[int], order: Order, epoch: int, ranks: int, batch_size: int
) -> None:
    table, clips, together = table_of_counts(counts), sum(counts), ranks * batch_size
    dropped = World(ranks, batch_size, "drop", sharding).plans(table, order, epoch)
    seen = flat(clips_of(dropped, dropped[0].rounds))
    assert len(set(seen)) == len(seen) == clips // together * together
    filled = World(ranks, batch_size, "fill", sharding).plans(table, order, epoch)
    batches = clips_of(filled, filled[0].rounds)
    assert {len(of_rank) for batch in batches for of_rank in batch} == {batch_size}
    times = Counter(flat(batches))
    assert set(times) == set(range(clips))
    assert times.total() == -(-clips // together) * together
    assert sorted(on_their_turn(filled, filled[0].rounds)) == list(range(clips))
    assert sorted(on_their_turn(dropped, dropped[0].rounds)) == sorted(seen)


@given(
    counts=counts,
    order=orders,
    epoch=epochs,
    changes=st.lists(worlds(("strided", "contiguous"), LAST_BATCH), max_size=4),
    last=worlds(("strided", "contiguous"), LAST_BATCH),
    data=st.data(),
)
def test_ranks_and_dealing_may_change_in_the_middle_of_an_epoch(
    counts: list[int], order: Order, epoch: int, changes: list[World], last: World, data: st.DataObject
) -> None:
    check_changes(table_of_counts(counts), order, epoch, changes, last, data)


@given(
    counts=counts,
    order=orders,
    epoch=epochs,
    changes=st.lists(worlds(("stick_to_shard",), LAST_BATCH), max_size=4),
    last=worlds(("stick_to_shard",), LAST_BATCH),
    data=st.data(),
)
def test_ranks_that_stick_to_shards_may_change_too(
    counts: list[int], order: Order, epoch: int, changes: list[World], last: World, data: st.DataObject
) -> None:
    check_changes(table_of_counts(counts), order, epoch, changes, last, data)


@st.composite
def nodes_and_worlds(draw: st.DrawFn) -> tuple[ClipTable, list[World]]:
    """Videos of up to four nodes in any order, and ranks that share nodes or have several."""
    nodes = draw(st.integers(1, 4))
    rows = [*range(nodes), *draw(st.lists(st.integers(0, nodes - 1), max_size=8))]
    rows = draw(st.permutations(rows))
    table = table_of_counts([draw(st.integers(1, 20)) for _ in rows], [{"node": node} for node in rows])
    numbers = [ranks for ranks in range(1, 9) if ranks % nodes == 0 or nodes % ranks == 0]
    world = st.builds(World, st.sampled_from(numbers), st.integers(1, 5), st.sampled_from(LAST_BATCH), st.just(NODES))
    return table, draw(st.lists(world, min_size=1, max_size=4))


def nodes_of(table: ClipTable) -> np.ndarray:
    return np.repeat([entry.columns["node"] for entry in table.dataset], np.diff(table.clip_ends, prepend=0))


@given(given_nodes=nodes_and_worlds(), order=orders, epoch=epochs, data=st.data())
def test_ranks_of_nodes_may_change_too_and_read_their_own_videos_only(
    given_nodes: tuple[ClipTable, list[World]], order: Order, epoch: int, data: st.DataObject
) -> None:
    table, (*changes, last) = given_nodes
    check_changes(table, order, epoch, changes, last, data)


def check_changes(
    table: ClipTable, order: Order, epoch: int, changes: list[World], last: World, data: st.DataObject
) -> None:
    """Each world takes some batches and leaves the rest to the next; the last one goes on to the end."""
    seen: list[int] = []
    state = None
    for world in changes:
        plans = plans_or_assume(world, table, order, epoch, state)
        # What fills up a batch is no clip of it; so it would be the epoch's last.
        most = plans[0].rounds - (world.last_batch == "fill")
        some = data.draw(st.integers(0, max(most, 0)))
        batches = clips_of(plans, some)
        check_homes(table, world, batches)
        seen += flat(batches)
        state = state_after(plans, some)
    plans = plans_or_assume(last, table, order, epoch, state)
    batches = clips_of(plans, plans[0].rounds)
    check_homes(table, last, batches)
    left = sorted(set(range(len(table))) - set(seen))
    # A node that has fewer clips than another repeats some before the end.
    fills_early = any(world.last_batch == "fill" and world.sharding is NODES for world in changes)
    assert fills_early or len(set(seen)) == len(seen)
    rest = flat(batches)
    assert last.last_batch == "drop" or sorted(on_their_turn(plans, plans[0].rounds)) == left
    if last.last_batch in ("partial", "uneven"):
        assert sorted(rest) == left
    elif last.last_batch == "drop":
        assert len(set(rest)) == len(rest)
        assert set(rest) <= set(left)
        assert last.sharding is NODES or len(left) - len(rest) < last.together
    else:
        assert set(rest) >= set(left)
        assert last.sharding is NODES or len(rest) - len(left) < last.together


def check_homes(table: ClipTable, world: World, batches: list[list[list[int]]]) -> None:
    if world.sharding is not NODES:
        return
    nodes = nodes_of(table)
    groups = nodes.max() + 1
    for batch in batches:
        for rank, clips in enumerate(batch):
            lowest, highest = rank * groups // world.ranks, ((rank + 1) * groups - 1) // world.ranks
            assert all(lowest <= nodes[clip] <= highest for clip in clips)


@pytest.mark.parametrize("last_batch", LAST_BATCH)
@pytest.mark.parametrize("sharding", DEALINGS)
@given(counts=counts, order=orders, ranks=st.integers(1, 6), batch_size=st.integers(1, 5), data=st.data())
def test_the_same_ranks_go_on_as_if_nothing_had_happened(
    sharding: str, last_batch: str, counts: list[int], order: Order, ranks: int, batch_size: int, data: st.DataObject
) -> None:
    world, table = World(ranks, batch_size, last_batch, sharding), table_of_counts(counts)
    plans = plans_or_assume(world, table, order, 1)
    whole = clips_of(plans, plans[0].rounds)
    taken = data.draw(st.integers(0, len(whole)))
    resumed = world.plans(table, order, 1, state_after(plans, taken))
    assert clips_of(resumed, resumed[0].rounds) == whole[taken:]


def test_contiguous_ranks_have_ranges_of_the_epoch() -> None:
    table = table_of_counts([40])
    plans = World(4, 2, "partial", "contiguous").plans(table, InOrder(), 0)
    taken = [np.concatenate([plan.clips(batch) for batch in range(len(plan))]).tolist() for plan in plans]
    assert taken == [list(range(start, start + 10)) for start in (0, 10, 20, 30)]


def test_ranks_stick_to_their_shard_over_epochs_and_shuffle_it() -> None:
    table = table_of_counts([5] * 12)
    orders = []
    for epoch in range(3):
        plans = World(4, 2, "partial", "stick_to_shard").plans(table, ShuffleClips(), epoch)
        for rank, plan in enumerate(plans):
            clips = np.concatenate([plan.clips(batch) for batch in range(len(plan))]).tolist()
            assert sorted(clips) == list(range(rank * 15, rank * 15 + 15))
            orders.append(tuple(clip - rank * 15 for clip in clips))
    assert len(set(orders)) == 12  # each rank and epoch has its own


def test_a_smaller_node_gets_smaller_batches_and_as_many() -> None:
    table = table_of_counts([40, 25], [{"node": 0}, {"node": 1}])
    plans = World(4, 4, "partial", NODES).plans(table, ShuffleClips(), 0)
    sizes = [[len(plan.clips(batch)) for batch in range(len(plan))] for plan in plans]
    assert sizes == [[4] * 5, [4] * 5, [3, 3, 3, 3, 3], [2, 2, 2, 2, 2]]


@pytest.mark.parametrize(
    ("columns", "ranks", "message"),
    [
        ([{"node": 0}, {"node": 1}, {"node": 2}], 2, "3 groups for 2 ranks"),
        ([{"node": 0}, {"node": 2}, {"node": 2}], 1, "group 1 no clip"),
        ([{"node": 0}, {"node": 10**9}, {"node": 1}], 1, "numbers of groups"),
        ([{"node": 0}, {"node": -1}, {"node": 1}], 1, "numbers of groups"),
        ([{"node": 0}, {"node": "a"}, {"node": 1}], 1, "numbers of groups"),
        ([{"node": 0}, {}, {"node": 1}], 1, "has no column 'node'"),
        ([{}, {}, {}], 1, "the data set has no column 'node'"),
    ],
)
def test_columns_that_name_no_groups_are_refused(columns: list[dict[str, Any]], ranks: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        World(ranks, 1, "drop", NODES).plans(table_of_counts([3, 3, 3], columns), InOrder(), 0)


def test_a_clip_that_stands_in_is_of_the_same_node() -> None:
    table = table_of_counts([4, 5, 6, 7], [{"node": node} for node in (1, 0, 1, 0)])
    epochs, rng = Epochs(table, InOrder(), 0, 0, 2, 1, "drop", NODES), np.random.default_rng(0)
    nodes = nodes_of(table)
    for clip in range(22):
        beside = {epochs.clip_beside(clip, rng) for _ in range(150)}
        assert beside == set(np.flatnonzero(nodes == nodes[clip]).tolist())


def test_a_sampler_is_dealt_to_the_ranks_like_any_order() -> None:
    table = table_of_counts([10])
    sampler = [9, 9, 0, 1, 2, 3, 9]
    for sharding in ("strided", "contiguous"):
        plans = World(2, 2, "partial", sharding).plans(table, SampledClips(sampler), 0)
        assert sorted(flat(clips_of(plans, len(plans[0])))) == sorted(sampler)
    with pytest.raises(ConfigurationError, match="a sampler"):
        World(2, 2, "partial", "stick_to_shard").plans(table, SampledClips(sampler), 0)


def test_a_sampler_that_gives_other_numbers_cannot_go_on() -> None:
    table, world = table_of_counts([10]), World(1, 2)
    state = state_after(world.plans(table, SampledClips([1, 2, 3]), 0), 1)
    assert clips_of(world.plans(table, SampledClips([1, 2, 3]), 0, state), 1) == [[[3]]]
    with pytest.raises(ConfigurationError, match="another data set"):
        world.plans(table, SampledClips([1, 2, 4]), 0, state)


def test_states_of_other_orders_and_shards_are_refused() -> None:
    columns = [{"node": row % 2, "rack": row // 2} for row in range(4)]
    table = table_of_counts([3] * 4, columns)
    ways = [
        (ShuffleClips(), "strided"),
        (InOrder(), "strided"),
        (ShuffleBlocks(2, 4), "strided"),
        (ShuffleBlocks(2, 5), "strided"),
        (ShuffleClips(), "stick_to_shard"),
        (ShuffleClips(), NODES),
        (ShuffleClips(), ByColumn("rack")),
    ]
    for one, (order, sharding) in enumerate(ways):
        state = state_after(World(2, 1, "partial", sharding).plans(table, order, 0), 1)
        for other, (mine, my_sharding) in enumerate(ways):
            world = World(2, 1, "partial", my_sharding)
            if one == other:
                world.plans(table, mine, 0, state)
            else:
                with pytest.raises(ConfigurationError, match=r"the state is of another (order|sharding)"):
                    world.plans(table, mine, 0, state)


CHANGING = [World(ranks, 1, "drop", sharding) for sharding in (*DEALINGS, NODES) for ranks in (4, 8, 12)]


@pytest.mark.parametrize("sharding", DEALINGS)
def test_a_state_stays_small_however_often_the_ranks_change(sharding: Any) -> None:
    table, worlds = table_of_counts([1] * 1500), [world for world in CHANGING if world.sharding == sharding]
    seen, state = change_often(table, worlds, 60)
    plans = World(4, 7, "partial", sharding).plans(table, ShuffleClips(), 0, state)
    assert sorted(seen + flat(clips_of(plans, len(plans[0])))) == list(range(1500))


def test_ranks_of_nodes_may_change_24_times_in_an_epoch() -> None:
    table = table_of_counts([1] * 1500, [{"node": row % 4} for row in range(1500)])
    worlds = [world for world in CHANGING if world.sharding is NODES]
    seen, state = change_often(table, worlds, 24)
    assert len(set(seen)) == len(seen) == 2 * 8 * (4 + 8 + 12)
    with pytest.raises(ConfigurationError, match="changed 24 times"):
        worlds[0].plans(table, ShuffleClips(), 0, state)


def change_often(table: ClipTable, worlds: list[World], times: int) -> tuple[list[int], dict[str, Any]]:
    """The clips seen, and the state."""
    seen: list[int] = []
    state = None
    for change in range(times):
        plans = worlds[change % len(worlds)].plans(table, ShuffleClips(), 0, state)
        seen += flat(clips_of(plans, 2))
        state = state_after(plans, 2)
    assert state is not None
    return seen, state


@pytest.mark.parametrize(
    "change",
    [
        {"dealt": ""},
        {"dealt": "1x1x1 drop 99"},
        {"dealt": "1x1x1 drop 4,2x1x1 partial 9"},
        {"dealt": None},
        {"parts": 0},
        {"parts": 3},
        {"parts": 10**12},
        {"parts": "x"},
        {"epoch": None},
        {"epoch": -1},
        {"epoch": float("inf")},
        {"parts": float("-inf")},
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    table, world = table_of_counts([10]), World(2, 2)
    state = state_after(world.plans(table, ShuffleClips(), 0), 1)
    with pytest.raises(ConfigurationError, match=r"damaged|not the state"):
        world.plans(table, ShuffleClips(), 0, state | change)
    with pytest.raises(ConfigurationError, match="not the state"):
        world.plans(table, ShuffleClips(), 0, {"position": 3})


@given(counts=counts, order=orders, world=worlds(DEALINGS, tuple(LAST_BATCH)), most=st.integers(1, 6), data=st.data())
def test_groups_of_batches_end_where_no_video_goes_on(
    counts: list[int], order: Order, world: World, most: int, data: st.DataObject
) -> None:
    paths = data.draw(st.lists(st.sampled_from("abc"), min_size=len(counts), max_size=len(counts)))
    table = table_of_counts(counts, paths=paths)
    for plan in plans_or_assume(world, table, order, 1):
        groups = list(plan.groups(most))
        assert [batch for group in groups for batch in group] == list(range(len(plan)))
        assert all(1 <= len(group) <= most for group in groups)
        videos = [[table[clip][0].entry.path for clip in plan.clips(batch).tolist()] for batch in range(len(plan))]
        goes_on = [before[-1] == here[0] for before, here in pairwise(videos)]
        for group in groups[:-1]:
            assert all(goes_on[batch] for batch in group[:-1])
            assert len(group) == most or not goes_on[group[-1]]
