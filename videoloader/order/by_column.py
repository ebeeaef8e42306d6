"""The clips of a table in groups that belong to nodes or ranks, numbered group by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b

import numpy as np

from videoloader.errors import ConfigurationError
from videoloader.order.clip_table import ClipTable
from videoloader.permutation import Integers


@dataclass(frozen=True)
class ByColumn:
    """Each rank takes only rows that a column of the data set gives to it or to its node, such as tars on a local disk.

    The column holds numbers 0 … G − 1. With more ranks than groups, consecutive ranks share one: with a group for each
    node, ranks of a node must be consecutive, as torchrun and srun number them. With more groups than ranks, each
    takes several consecutive ones. One number must divide the other.

    All ranks have the whole table, whoever has the files, and so know how many batches every other one has. They read
    it, and the numbers of frames, where all can: rows from a CSV, JSON lines or Parquet table, frames from an index
    that was built once. A rank looks at files only where it takes clips of them. Clips are shuffled within a group.
    Groups should be about equally large: with ``last_batch="partial"`` a rank with fewer clips gets smaller batches,
    with ``"fill"`` it repeats some, with ``"uneven"`` it ends earlier, with ``"drop"`` all stop with the first that
    runs out.

    Args:
        column: str. The name of the column.

    Examples:
        Tars were copied to ``/nvme`` of 64 nodes, and the table says which to which, in a column "node":

        >>> data = VideoDataset.from_csv("/shared/rows.jsonl", root="/nvme")
        >>> index = IndexStore("/shared/index.db", root="/nvme", verify=False)
        >>> loader = VideoLoader(data, mode, index=index, sharding=ByColumn("node"), batch_size=8)
    """

    column: str


@dataclass(frozen=True, eq=False)
class ClipGroups:
    """Clips counted group by group, in the order of the table within each; without groups all are one.

    Attributes:
        bounds: int64[G + 1], where groups begin and end.
        last: int64[V], number of clips in each video and all before it, group by group.
        shift: int64[V], the offset from these numbers to those of the table.
        group: int64[V], the group of each video of the table.
        file_ends: gives the part of ``last`` after which another file begins.
    """

    bounds: Integers
    last: Integers
    shift: Integers
    group: Integers
    file_ends: Callable[[], Integers]

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def table_numbers(self, clips: Integers) -> Integers:
        """The table's numbers of these clips."""
        numbers: Integers = clips + self.shift[np.searchsorted(self.last, clips, "right")]
        return numbers

    @cached_property
    def name(self) -> str:
        """A short text that differs between different groups."""
        return blake2b(self.group.astype("<i8").tobytes(), digest_size=16).hexdigest()

    def random_in_group(self, video: int, rng: np.random.Generator) -> int:
        """A random clip, in the table's numbers, of the group that one of the table's videos belongs to."""
        first, stop = self.bounds[self.group[video] :][:2].tolist()
        return int(self.table_numbers(rng.integers(first, stop, 1))[0])

    def video_ends(self, first: int, stop: int) -> Integers:
        """int64: the number of clips in each file and all before it, of those in a range of clips."""
        last = self.file_ends()
        inside = last[np.searchsorted(last, first, "right") : np.searchsorted(last, stop, "left") + 1]
        ends: Integers = np.minimum(inside, stop) - first
        return ends


def group_clips(table: ClipTable, by: ByColumn | None) -> ClipGroups:
    """The clips of a table in the groups of a column, or all in one.

    Raises:
        ConfigurationError: there is no such column, it does not hold numbers 0 … G − 1, or a group has no clip.
    """
    if by is None:  # nothing is counted anew, which would take 32 bytes a row
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
        group = np.array([int(value) for value in values], np.int64)
    except (TypeError, ValueError, OverflowError):
        group = np.full(len(rows), -1)
    # Each group has a row at least, so larger numbers cannot be without gaps, and would take memory to count.
    if len(group) and not 0 <= group.min() <= group.max() < len(group):
        raise ConfigurationError(f"column {column!r} must hold the numbers of groups, 0, 1, 2, …")
    return group


def _file_ends(table: ClipTable, order: Integers | slice, last: Integers) -> Integers:
    paths = list(table.dataset.table.path)
    names = [paths[row] for row in table.ranges.rows[order].tolist()]
    ends: Integers = last[np.array([one != other for one, other in zip(names, [*names[1:], None], strict=True)])]
    return ends
