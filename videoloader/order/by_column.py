"""``ByColumn``: deals clips to nodes or ranks by a column of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from hashlib import blake2b

import numpy as np

from videoloader.errors import ConfigurationError
from videoloader.errors.short_text import short_text
from videoloader.indexing.exact_numbers import exact
from videoloader.order.clip_table import ClipTable
from videoloader.permutation import Integers
from videoloader.runtime.cached_property import cached_property


@dataclass(frozen=True)
class ByColumn:
    """Give each rank only the rows that a data set column assigns to it or its node, such as tars on a local disk.

    The column holds group numbers 0 … G − 1. With more ranks than groups, consecutive ranks share a group: with one
    group per node, the ranks of a node must be consecutive, as torchrun and srun number them. With more groups than
    ranks, each rank takes several consecutive groups. One number must divide the other.

    All ranks read the whole table, even rows whose files they lack, and so know the number of batches of every other
    rank. The table (CSV, JSON lines or Parquet) and an index built once must therefore be where all ranks can read
    them; files are opened only by ranks that take clips from them. Clips are shuffled within a group. Groups should be
    about equally large: with ``last_batch="partial"`` a rank with fewer clips gets smaller batches, with ``"fill"`` it
    repeats some clips, with ``"uneven"`` it ends earlier, and with ``"drop"`` all stop when the first runs out.

    Args:
        column: str. The name of the column.

    Examples:
        Tars were copied to ``/nvme`` on 64 nodes, and the table's column "node" says which node has which:

        >>> data = VideoDataset.from_csv("/shared/rows.jsonl", root="/nvme")
        >>> index = IndexStore("/shared/index.db", root="/nvme", verify=False)
        >>> loader = VideoLoader(data, mode, index=index, sharding=ByColumn("node"), batch_size=8)
    """

    column: str


@dataclass(frozen=True, eq=False)
class ClipGroups:
    """Clips renumbered group by group, in table order within each group; without a column there is one group.

    Attributes:
        bounds: int64[G + 1], the bounds of the groups.
        last: int64[V], cumulative number of clips up to and including each video, group by group.
        shift: int64[V], the offset from these numbers to those of the table.
        group: int64[V], the group of each video of the table.
        file_ends: returns the values of ``last`` at which a file ends.
    """

    bounds: Integers
    last: Integers
    shift: Integers
    group: Integers
    file_ends: Callable[[], Integers]

    @property
    def count(self) -> int:
        """G, the number of groups."""
        return len(self.bounds) - 1

    def table_numbers(self, clips: Integers) -> Integers:
        """The numbers of these clips in the table."""
        numbers: Integers = clips + self.shift[np.searchsorted(self.last, clips, "right")]
        return numbers

    @cached_property
    def name(self) -> str:
        """A short text that identifies the grouping."""
        return blake2b(self.group.astype("<i8").tobytes(), digest_size=16).hexdigest()

    def random_in_group(self, video: int, rng: np.random.Generator) -> int:
        """The table's number of a random clip from the group of one of its videos."""
        first, stop = self.bounds[self.group[video] :][:2].tolist()
        return int(self.table_numbers(rng.integers(first, stop, 1))[0])

    def video_ends(self, first: int, stop: int) -> Integers:
        """int64: the cumulative number of clips up to each file's end, within a range of clips."""
        last = self.file_ends()
        inside = last[np.searchsorted(last, first, "right") : np.searchsorted(last, stop, "left") + 1]
        ends: Integers = np.minimum(inside, stop) - first
        return ends


def group_clips(table: ClipTable, by: ByColumn | None) -> ClipGroups:
    """The clips of a table in the groups of a column, or all in one group.

    Raises:
        ConfigurationError: there is no such column, it does not hold numbers 0 … G − 1, or a group has no clip.
    """
    if by is None:  # nothing is renumbered, which would take 32 bytes a row
        same, ends = np.broadcast_to(np.int64(0), len(table.clip_ends)), table.clip_ends
        file_ends = cache(lambda: _file_ends(table, slice(None), ends))
        return ClipGroups(np.array([0, len(table)]), ends, same, same, file_ends)
    group = _numbers(table, by.column)
    order = np.argsort(group, kind="stable")
    clips = np.diff(table.clip_ends, prepend=0)[order]
    last = np.cumsum(clips)
    of_group = np.bincount(group[order], weights=clips).astype(np.int64)
    if not of_group.all():
        raise ConfigurationError(f"column {by.column!r} gives group {np.argmin(of_group)} no clip")
    bounds = np.append(0, np.cumsum(of_group))
    return ClipGroups(bounds, last, table.clip_ends[order] - last, group, cache(lambda: _file_ends(table, order, last)))


def _numbers(table: ClipTable, column: str) -> Integers:
    rows = table.ranges.rows.tolist()
    values = table.dataset.table.take(table.ranges.rows).column(column)
    try:
        group = np.array([int(exact(column, each) if isinstance(each, Decimal) else each) for each in values], np.int64)
    except (TypeError, ValueError, OverflowError):
        group = np.full(len(rows), -1)
    # Each group has at least one row, so a number beyond the rows means a gap; counting groups would take memory.
    if len(group) and not 0 <= group.min() <= group.max() < len(group):
        got = short_text(list(dict.fromkeys(values)))
        raise ConfigurationError(f"column {column!r} must hold the numbers of groups, 0, 1, 2, …, got {got}")
    return group


def _file_ends(table: ClipTable, order: Integers | slice, last: Integers) -> Integers:
    paths = list(table.dataset.table.path)
    names = [paths[row] for row in table.ranges.rows[order].tolist()]
    ends: Integers = last[np.array([one != other for one, other in zip(names, [*names[1:], None], strict=True)])]
    return ends
