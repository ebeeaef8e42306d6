"""Plans the batches of a rank in one epoch, and saves and restores positions in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import index
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check, check_uint64, is_integer
from videoloader.errors.short_text import repr_of
from videoloader.order.by_column import ByColumn, ClipGroups, group_clips
from videoloader.order.clip_table import ClipTable
from videoloader.order.sharding import LAST_BATCH, MOST_LANES, Deal, LastBatch, Left, damaged_state, even_bounds
from videoloader.order.shuffle import Order, OrderOfEpoch, SampledClips
from videoloader.permutation import Integers
from videoloader.runtime.cached_property import cached_property

Dealing = Literal["strided", "contiguous", "stick_to_shard"]
DEALINGS = get_args(Dealing)

# The most changes of ranks within one epoch that a state records one by one.
_MOST_DEALS = 24
_ONE_BY_ONE = Deal(1, 1, 1, "drop")
# Positions that are looked up together: for a few of them, numpy takes as long as for thousands.
_TOGETHER = 4096
# The most characters with which a state describes one part of its loader.
_LONGEST_PART = 120


@dataclass(frozen=True, eq=False)
class Epochs:
    """The settings that all epochs of a loader have in common.

    Attributes:
        table: the clips.
        order: their order.
        seed: seed of the order.
        rank, ranks: this process's rank, and the number of ranks.
        batch_size, last_batch: see ``Deal``.
        sharding: see ``VideoLoader``. With ``"stick_to_shard"`` and ``ByColumn`` the order applies within each part.
        settings: further settings that a state's fingerprint covers.

    Raises:
        ConfigurationError: a setting is outside its range, or settings are incompatible.
    """

    table: ClipTable
    order: Order
    seed: int
    rank: int
    ranks: int
    batch_size: int
    last_batch: LastBatch
    sharding: Dealing | ByColumn
    settings: object = None

    def __post_init__(self) -> None:
        check_uint64(seed=self.seed)
        check("shard_id", self.rank, 0 <= self.rank < self.ranks, f"in [0, num_shards={self.ranks})")
        is_dealing = isinstance(self.sharding, ByColumn) or self.sharding in DEALINGS
        check("sharding", self.sharding, is_dealing, f"ByColumn(…) or one of {', '.join(DEALINGS)}")
        if self._ordered_in_parts and isinstance(self.order, SampledClips):
            raise ConfigurationError(
                "a sampler orders all clips, so no rank can keep to its own: use sharding='strided' or 'contiguous'"
            )
        groups = self.groups.count
        if isinstance(self.sharding, ByColumn) and self.ranks % groups and groups % self.ranks:
            raise ConfigurationError(
                f"column {self.sharding.column!r} has {groups} groups for {self.ranks} ranks: one number must divide "
                "the other"
            )

    @property
    def _ordered_in_parts(self) -> bool:
        return self.sharding not in ("strided", "contiguous")

    @cached_property
    def groups(self) -> ClipGroups:
        """The clips in the groups of their nodes."""
        return group_clips(self.table, self.sharding if isinstance(self.sharding, ByColumn) else None)

    @cached_property
    def positions(self) -> int:
        """The number of clips in an epoch over all ranks."""
        return self.order.positions(len(self.table))

    @property
    def lanes(self) -> int:
        """The number of lanes; see ``sharding``."""
        if isinstance(self.sharding, ByColumn):
            return min(self.ranks, self.groups.count)
        return 1 if self.sharding == "strided" else self.ranks

    def epoch(self, number: int) -> EpochShard:
        """A whole epoch.

        Raises:
            ConfigurationError: the number is negative, or the clips cannot be dealt to the ranks.
        """
        check_uint64(epoch=number)
        return EpochShard(self, number, self.ranks if self.sharding == "stick_to_shard" else 1, (self._deal(),))

    def _deal(self) -> Deal:
        return Deal(self.lanes, self.ranks // self.lanes, self.batch_size, self.last_batch)

    def resume(self, state: Mapping[str, Any]) -> EpochShard:
        """The rest of an epoch.

        Args:
            state: result of ``EpochShard.state``. The number of ranks, batch size and ``sharding`` may differ, as long
                as the order is the same.

        Raises:
            ConfigurationError: the state is of another data set, frame mode, order or seed, or is damaged.
        """
        try:
            epoch, parts, fingerprint = index(state["epoch"]), index(state["parts"]), str(state["fingerprint"])
            deals = tuple(map(Deal.parse, state["dealt"].split(",")))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise not_a_state(state) from None
        if epoch < 0 or not 1 <= parts <= MOST_LANES:
            raise damaged_state(f"epoch={epoch}, parts={parts}")
        if fingerprint != self.fingerprint(epoch):
            raise ConfigurationError(self._difference(state.get("of")))
        if parts > 1 and self.sharding != "stick_to_shard":
            raise damaged_state(f"parts={parts}, sharding {self.sharding!r}")
        following = self._deal()
        if replace(deals[-1], batches=0) != following:
            if len(deals) >= _MOST_DEALS:
                if isinstance(self.sharding, ByColumn):
                    raise ConfigurationError(
                        f"the ranks or the batch size have changed {_MOST_DEALS} times in this epoch: begin the next "
                        f"with set_epoch({epoch + 1})"
                    )
                # When ranks take turns, one number suffices however often the ranks change.
                following = replace(following, lanes=1, ranks=self.ranks)
            deals += (following,)
        return EpochShard(self, epoch, parts, deals)

    def fingerprint(self, epoch: int) -> str:
        """A short name that identifies the clips in their order; with a sampler, in this epoch's order."""
        within = ""
        if self._ordered_in_parts:
            within = self.sharding if isinstance(self.sharding, str) else self.groups.name
        return self.table.fingerprint(self.settings, self.order.identity(len(self.table), self.seed, epoch), within)

    @property
    def description(self) -> dict[str, str]:
        """Descriptions of what a state belongs to, from which another loader can say what differs."""
        order = "a sampler" if isinstance(self.order, SampledClips) else repr(self.order)
        parts = {"data set": self.table.rows_name, "frame mode": repr_of(self.settings), "order": order}
        parts |= {
            "seed": str(self.seed),
            "sharding": repr(self.sharding) if self._ordered_in_parts else "all clips in one order",
        }
        return {name: part if len(part) <= _LONGEST_PART else _shortened(part) for name, part in parts.items()}

    def _difference(self, saved: Any) -> str:
        own, saved = self.description, saved if isinstance(saved, Mapping) else {}
        other = [name for name, part in own.items() if saved.get(name, part) != part]
        if not other:
            return "the state is of another data set, frame mode, order or seed than this loader"
        told = f"the state is of another {' and '.join(other)}: " + ", ".join(
            f"{saved[name]} and not {own[name]}" for name in other
        )
        hint = "make the loader as it was, or begin the epoch with set_epoch(n)"
        if " object at 0x" in told:
            hint = "make the class a frozen dataclass, whose repr says what it is in every process"
        return f"{told}; {hint}"

    def clip_beside(self, clip: int, rng: np.random.Generator) -> int:
        """A random clip of a rank that also has this one."""
        return self.groups.random_in_group(int(np.searchsorted(self.table.clip_ends, clip, "right")), rng)


class EpochShard:
    """The batches of one rank in one epoch, or in the rest of it.

    Args:
        epochs: the settings of all epochs.
        number: number of the epoch.
        parts: number of parts of the data set that ranks stick to, as the epoch began.
        deals: the deals of the epoch so far; the last is the current one.

    Attributes:
        number: number of the epoch.
        rounds: number of batches left, the same for all ranks. With ``"uneven"`` the last ones of some ranks are empty.

    Raises:
        ConfigurationError: see ``Deal.num_batches``; or the deals took more than there is.
    """

    def __init__(self, epochs: Epochs, number: int, parts: int, deals: tuple[Deal, ...]) -> None:
        self._epochs, self.number, self._parts, self._deals = epochs, number, parts, deals
        left = Left.whole(epochs.positions)
        for deal in deals[:-1]:
            bounds, sizes, _ = self._lanes_of(deal, left)
            left = left.after(bounds, np.minimum(deal.taken(deal.batches, sizes), sizes))
        self._left = left
        self._bounds, self._sizes, batches = self._lanes_of(deals[-1], left)
        self._lane, self._turn = divmod(epochs.rank, deals[-1].ranks)
        self._size = int(self._sizes[self._lane])
        self.rounds = batches - deals[-1].batches
        self._orders: dict[int, OrderOfEpoch] = {}
        # The number of the first of some batches, and for each of them its clips, and which are repeated.
        self._looked_up: tuple[int, list[tuple[Integers, npt.NDArray[np.bool_]]]] = 0, []

    def _lanes_of(self, deal: Deal, left: Left) -> tuple[Integers, Integers, int]:
        """The bounds of lanes in the remaining positions, their sizes, and the number of batches of each rank."""
        if isinstance(self._epochs.sharding, ByColumn) and deal.lanes > 1:
            bounds = left.below(self._home(deal.lanes))
        else:
            bounds = even_bounds(len(left), deal.lanes)
        sizes = np.diff(bounds)
        batches = deal.num_batches(sizes)
        if deal.batches > batches:
            raise damaged_state(f"dealt: {deal.batches} of {batches} batches")
        return bounds, sizes, batches

    def _home(self, lanes: int) -> Integers:
        """int64[lanes + 1]: the bounds of the positions from which each lane may repeat clips."""
        if not isinstance(self._epochs.sharding, ByColumn):
            return even_bounds(self._epochs.positions, lanes)
        groups = self._epochs.groups.count
        if groups % lanes:
            raise damaged_state(f"dealt: {lanes} parts of {groups} groups")
        return self._epochs.groups.bounds[:: groups // lanes]

    def __len__(self) -> int:
        """The number of batches left for this rank."""
        deal = self._deals[-1]
        if not LAST_BATCH[deal.last_batch].empty_batches:
            return self.rounds
        own = -(-(self._size - self._turn) // deal.together)
        return max(own - deal.batches, 0)

    def groups(self, most: int) -> Iterator[range]:
        """All batches in groups of at most ``most``; a group ends after the first batch that ends with its video."""
        first, batches = 0, len(self)
        for batch in range(1, batches + 1):
            if batch - first == most or batch == batches or not self._continues(batch):
                yield range(first, batch)
                first = batch

    def _continues(self, batch: int) -> bool:
        """Whether a batch begins in the video in which the batch before it ends."""
        table = self._epochs.table
        places, _ = table.places(np.array([self.clips(batch - 1)[-1], self.clips(batch)[0]]))
        before, row = table.ranges.rows[places].tolist()
        paths = table.dataset.table.path
        return bool(before == row or paths[before] == paths[row])

    def clips(self, batch: int) -> Integers:
        """int64[B]: the clips of one batch; batches are counted from the first that is left."""
        return self._look_up(batch)[0]

    def repeated(self, batch: int) -> npt.NDArray[np.bool_]:
        """bool[B]: whether each clip only fills up the batch, and also comes elsewhere in the epoch."""
        return self._look_up(batch)[1]

    def _look_up(self, batch: int) -> tuple[Integers, npt.NDArray[np.bool_]]:
        first, batches = self._looked_up
        if not first <= batch < first + len(batches):
            # Twice as many each time, so that the first batch does not wait for many others.
            first, count = batch, min(2 * len(batches), _TOGETHER // self._deals[-1].batch_size)
            batches = self._batches_from(first, max(count, 1))
            self._looked_up = first, batches
        return batches[batch - first]

    def _batches_from(self, first: int, count: int) -> list[tuple[Integers, npt.NDArray[np.bool_]]]:
        each = [self._wanted(batch) for batch in range(first, max(min(first + count, self.rounds), first + 1))]
        wanted = np.concatenate(each)
        repeated = wanted >= self._size
        positions = np.empty_like(wanted)
        positions[~repeated] = self._left.at(self._bounds[self._lane] + wanted[~repeated])
        if repeated.any():
            start, stop = self._home(self._deals[-1].lanes)[self._lane : self._lane + 2].tolist()
            if start == stop:
                start, stop = 0, self._epochs.positions
            positions[repeated] = start + (wanted[repeated] - self._size) % (stop - start)
        clips, ends = self._clips_at(positions), np.cumsum([len(some) for some in each])[:-1]
        clips.flags.writeable = repeated.flags.writeable = False
        return list(zip(np.split(clips, ends), np.split(repeated, ends), strict=True))

    def _wanted(self, batch: int) -> Integers:
        """int64[B]: the positions of a batch's clips in its lane; those beyond the lane's end fill it up."""
        deal = self._deals[-1]
        number = deal.batches + batch
        begin, end = (int(deal.taken(each, self._sizes)[self._lane]) for each in (number, number + 1))
        return np.arange(begin + self._turn, end, deal.ranks, dtype=np.int64)

    def _clips_at(self, positions: Integers) -> Integers:
        bounds = self._part_bounds
        part = np.searchsorted(bounds, positions, "right") - 1
        clips = np.empty_like(positions)
        for number in np.unique(part).tolist():
            if number not in self._orders:
                self._orders[number] = self._order_of_part(number)
            here = part == number
            clips[here] = bounds[number] + self._orders[number](positions[here] - bounds[number])
        return self._epochs.groups.table_numbers(clips)

    @cached_property
    def _part_bounds(self) -> Integers:
        """The bounds of the parts that are ordered separately."""
        if isinstance(self._epochs.sharding, ByColumn):
            return self._epochs.groups.bounds
        return even_bounds(self._epochs.positions, self._parts)

    def _order_of_part(self, number: int) -> OrderOfEpoch:
        epochs, bounds = self._epochs, self._part_bounds
        first, stop = bounds[number : number + 2].tolist()
        seed = epochs.seed
        if len(bounds) == 2:
            # A sampler's number of positions may differ from the number of clips.
            first, stop = 0, len(epochs.table)
        else:
            # Parts of the same size must not have the same order.
            seed = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
        return epochs.order.of_epoch(stop - first, lambda: epochs.groups.video_ends(first, stop), seed, self.number)

    def state(self, batches: int) -> dict[str, Any]:
        """The state from which to resume after so many of these batches, in less than 1 KB of numbers and text."""
        *before, last = self._deals
        last = replace(last, batches=last.batches + batches)
        if last.lanes == 1:
            # One number suffices, whatever the ranks, so any number of such deals merge into one.
            taken = int(last.taken(last.batches, self._sizes)[0])
            last = replace(_ONE_BY_ONE, batches=min(taken, self._size))
            while before and replace(before[-1], batches=0) == _ONE_BY_ONE:
                last = replace(last, batches=last.batches + before.pop().batches)
        return {
            "epoch": self.number,
            "parts": self._parts,
            "dealt": ",".join(str(deal) for deal in (*before, last)),
            "fingerprint": self._epochs.fingerprint(self.number),
            "of": self._epochs.description,
        }


def check_state(state: Any, names: Collection[str], counts: Collection[str], of: str) -> None:
    """Raise ConfigurationError unless a value is a state with these entries, some of which are numbers from 0."""
    is_state = isinstance(state, Mapping) and set(names) <= state.keys()
    if not is_state or any(not is_integer(state[name]) or not 0 <= state[name] < 1 << 63 for name in counts):
        raise not_a_state(state, of)


def not_a_state(state: Any, of: str = "a loader") -> ConfigurationError:
    """The error for a value that is not the state of a loader, but may contain one."""
    for name, part in state.items() if isinstance(state, Mapping) else ():
        if isinstance(part, Mapping) and "fingerprint" in part:
            return ConfigurationError(f"not the state of {of}, but a dict with one: give state[{name!r}]")
    return ConfigurationError(f"not the state of {of}, which state_dict() gives: {str(state)[:200]}")


def _shortened(part: str) -> str:
    return f"{part[:_LONGEST_PART]}… {blake2b(part.encode(), digest_size=4).hexdigest()}"
