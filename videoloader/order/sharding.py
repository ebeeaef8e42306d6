"""Computes each rank's part of an epoch, without communication.

The rest of an epoch is a sequence of clips, cut into *lanes*: one in which all ranks take turns, one for each rank, or
one for each node. All ranks go through the same number of batches, some of which may be empty with ``"uneven"``. So
what is left after any number of batches follows from a few numbers (``Deal``), and can be dealt again to any number of
ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np

from videoloader.errors import ConfigurationError, counted
from videoloader.errors.checks import check_choice, check_positive
from videoloader.permutation import Integers

LastBatch = Literal["partial", "drop", "fill", "uneven"]
# More ranks than any job has: a state with more is damaged.
MOST_LANES = 1 << 20


@dataclass(frozen=True)
class Deal:
    """One deal of the rest of an epoch, and how far it went; with the earlier deals, it determines what is left now.

    Attributes:
        lanes: number of lanes.
        ranks: number of ranks that take turns in a lane.
        batch_size: clips in a batch of one rank, at most.
        last_batch: treatment of the last clips of a lane, which do not fill a batch on all its ranks. ``"partial"``
            deals them as evenly as possible, every clip exactly once; if they are fewer than the ranks, they and the
            clips of the batch before are spread over the last two batches. A lane that is shorter than others by more
            than that spreads its clips evenly over as many batches as the longest has. ``"drop"`` leaves them out,
            along with the surplus of longer lanes over the shortest. ``"fill"`` fills batches up from the start of the
            lane. ``"uneven"`` deals every clip exactly once, in batches that are full except for a rank's last; the
            last batches of a lane are empty for ranks for which no clip is left.
        batches: number of batches that each rank has taken.

    Raises:
        ConfigurationError: an attribute is outside its range.
    """

    lanes: int
    ranks: int
    batch_size: int
    last_batch: LastBatch
    batches: int = 0

    def __post_init__(self) -> None:
        check_positive(lanes=self.lanes, ranks=self.ranks, batch_size=self.batch_size)
        check_choice("last_batch", self.last_batch, LAST_BATCH)

    @property
    def together(self) -> int:
        """The number of clips in a full batch of all ranks of a lane."""
        return self.batch_size * self.ranks

    def num_batches(self, sizes: Integers) -> int:
        """The number of batches of each rank, the same for all, so that no rank waits forever for another.

        Args:
            sizes: int64[S], clips in each lane.

        Returns:
            The number of batches; 0 if no clips are left, or with ``"drop"``, fewer than a batch.

        Raises:
            ConfigurationError: ``"partial"`` cannot give every rank a clip in every batch: there are fewer clips than
                ranks, the batch size is 1 and the clips do not divide by the ranks, or a lane is far shorter than
                another.

        Examples:
            >>> [Deal(1, 2, 2, last_batch).num_batches(np.array([10])) for last_batch in LAST_BATCH]
            [3, 2, 3, 3]
        """
        return LAST_BATCH[self.last_batch].num_batches(self, sizes)

    def taken(self, batches: int, sizes: Integers) -> Integers:
        """The number of clips that the first batches take from each lane.

        Args:
            batches: number of batches, from 0 to ``num_batches``.
            sizes: int64[S], clips in each lane.

        Returns:
            int64[S]. With ``"fill"`` it may be more than the lane has: the surplus is repeated.

        Examples:
            >>> size = np.array([13])  # with three ranks the last 7 share two batches
            >>> [int(Deal(1, 3, 2, "partial").taken(batches, size)[0]) for batches in range(4)]
            [0, 6, 10, 13]
        """
        return LAST_BATCH[self.last_batch].taken(self, batches, sizes)

    def __str__(self) -> str:
        return f"{self.lanes}x{self.ranks}x{self.batch_size} {self.last_batch} {self.batches}"

    @staticmethod
    def parse(text: str) -> Deal:
        """The deal that prints as this text.

        Raises:
            ConfigurationError: the text is not that of a deal.
        """
        try:
            shape, last_batch, batches = text.split()
            lanes, ranks, batch_size = map(int, shape.split("x"))
            deal = Deal(lanes, ranks, batch_size, cast(LastBatch, last_batch), int(batches))
        except ValueError:
            raise damaged_state(f"dealt: {text!r}") from None
        if lanes > MOST_LANES or deal.batches < 0:
            raise damaged_state(f"dealt: {text!r}")
        return deal


def _batches_of_the_longest(deal: Deal, sizes: Integers) -> int:
    return -(-int(sizes.max()) // deal.together)


def _full_batches_of_the_shortest(deal: Deal, sizes: Integers) -> int:
    return int(sizes.min()) // deal.together


def _batches_with_a_clip_each(deal: Deal, sizes: Integers) -> int:
    batches, shortest = _batches_of_the_longest(deal, sizes), int(sizes.min())
    if shortest < batches * deal.ranks:
        clips, ranks = int(sizes.sum()), deal.ranks * deal.lanes
        uneven = ""
        if clips >= batches * ranks:
            uneven = f", as only {shortest} of them are for {'one rank' if deal.ranks == 1 else f'{deal.ranks} ranks'}"
        raise ConfigurationError(
            f"{counted(clips, 'clip')} cannot be dealt once each to {counted(ranks, 'rank')} in "
            f"{counted(batches, 'batch')} of 1 to {deal.batch_size} each{uneven}: use last_batch='drop', 'fill' or "
            "'uneven' (ranks then differ by a batch), fewer ranks or another batch_size; or, if they are all that is "
            "left of an epoch, begin the next with set_epoch"
        )
    return batches


def _in_full_batches(deal: Deal, batches: int, sizes: Integers) -> Integers:
    return np.minimum(batches * deal.together, sizes)


def _filled_up(deal: Deal, batches: int, sizes: Integers) -> Integers:
    return np.full_like(sizes, batches * deal.together)


def _spread_at_the_end(deal: Deal, batches: int, sizes: Integers) -> Integers:
    # The last two batches get half each, rather than one clip for each rank in the last: a batch of one upsets batch
    # statistics.
    together, of = deal.together, _batches_of_the_longest(deal, sizes)
    one_left, two_left = max(of - 1, 0), max(of - 2, 0)
    full = np.where(
        sizes - one_left * together >= deal.ranks,
        one_left,
        np.where(sizes - two_left * together >= 2 * deal.ranks, two_left, 0),
    )
    spread = sizes - full * together
    shared = -(-spread * np.maximum(batches - full, 0) // np.maximum(of - full, 1))
    return np.where(batches <= full, batches * together, full * together + shared)


class LastClips(NamedTuple):
    """A treatment of the last clips.

    Attributes:
        num_batches: function of a deal and the lanes' sizes; see ``Deal.num_batches``.
        taken: function of a deal, the batches and the lanes' sizes; see ``Deal.taken``.
        empty_batches: whether the last batches of some ranks are empty. They are not given out.
    """

    num_batches: Callable[[Deal, Integers], int]
    taken: Callable[[Deal, int, Integers], Integers]
    empty_batches: bool = False


LAST_BATCH: dict[LastBatch, LastClips] = {
    "partial": LastClips(_batches_with_a_clip_each, _spread_at_the_end),
    "drop": LastClips(_full_batches_of_the_shortest, _in_full_batches),
    "fill": LastClips(_batches_of_the_longest, _filled_up),
    "uneven": LastClips(_batches_of_the_longest, _in_full_batches, empty_batches=True),
}


@dataclass(frozen=True, eq=False)
class Left:
    """The positions of an epoch that are left to deal, as runs of consecutive positions in rising order.

    Attributes:
        start: int64[K], first position of each run.
        before: int64[K + 1], number of positions in all runs before each; the last is the total.
    """

    start: Integers
    before: Integers

    @staticmethod
    def whole(size: int) -> Left:
        """All positions of an epoch."""
        return Left(np.zeros(1, np.int64), np.array([0, size], np.int64))

    def __len__(self) -> int:
        return int(self.before[-1])

    def at(self, offsets: Integers) -> Integers:
        """The positions with these offsets among those left."""
        run = np.searchsorted(self.before, offsets, "right") - 1
        positions: Integers = self.start[run] + offsets - self.before[run]
        return positions

    def below(self, positions: Integers) -> Integers:
        """The number of positions left below each of these."""
        run = np.maximum(np.searchsorted(self.start, positions, "right") - 1, 0)
        inside = np.clip(positions - self.start[run], 0, np.diff(self.before)[run])
        counts: Integers = self.before[run] + inside
        return counts

    def after(self, bounds: Integers, taken: Integers) -> Left:
        """The rest after clips are taken from the front of each lane.

        Args:
            bounds: int64[S + 1], the bounds of lanes, as offsets among those left.
            taken: int64[S], the number of clips taken from each lane.
        """
        begin = bounds[:-1] + taken
        edges = np.unique(np.concatenate([self.before, bounds, begin]))
        pieces = edges[:-1]
        lane = np.searchsorted(bounds, pieces, "right") - 1
        kept = pieces >= begin[lane]
        sizes = np.diff(edges)[kept]
        if not sizes.size:
            return Left.whole(0)
        return Left(self.at(pieces[kept]), np.concatenate([[0], np.cumsum(sizes)]))


def damaged_state(what: str) -> ConfigurationError:
    """The error for a saved state that no loader can have written."""
    return ConfigurationError(f"the state is damaged or was edited ({what})")


def even_bounds(size: int, parts: int) -> Integers:
    """int64[parts + 1]: the bounds of parts whose sizes differ by at most one."""
    return np.array([size * part // parts for part in range(parts + 1)], np.int64)
