"""The rows of a data set, stored by columns: a million rows take about 100 MB, most of it paths."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import eq
from typing import TYPE_CHECKING, Any, get_args, overload

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import ABSENT, Column, PackedStrings, Rows, constant, join, pack, plain, take
from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.unchanging import row_number
from videoloader.errors import ConfigurationError, counted
from videoloader.errors.attribute_names import RowColumns, no_such_column
from videoloader.errors.checks import check, check_choice
from videoloader.indexing.index import Times
from videoloader.sampling.integers import positions_in_slice

if TYPE_CHECKING:
    from videoloader.dataset.row_frames import RowFrames

_MADE_AT_ONCE = 1024
# Marks a missing value in integer columns; in seconds NaN does.
NONE = -(2**63)
_NONE: dict[str, int | float] = {
    **dict.fromkeys(("label", "start", "stop"), NONE),
    **dict.fromkeys(("start_seconds", "stop_seconds"), math.nan),
}
ARRAYS = (*_NONE, "in_pts")


@dataclass(frozen=True, eq=False)
class EntryTable(Sequence[VideoEntry]):
    """The fields of all entries. Arrays are read-only, since they may be one value broadcast to all rows.

    Attributes:
        path: path of each video.
        label: int64[N], ``NONE`` where missing.
        start, stop: int64[N], ``NONE`` where missing.
        start_seconds, stop_seconds: float64[N], NaN where missing.
        in_pts: bool[N], whether seconds are the container's own timestamps.
        columns: the other columns by name; ``ABSENT`` in rows that lack one.
        frames: facts from a store about all rows, if they were saved with them. Comparison of tables ignores it.
    """

    path: PackedStrings
    label: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    start_seconds: npt.NDArray[np.float64]
    stop_seconds: npt.NDArray[np.float64]
    in_pts: npt.NDArray[np.bool_]
    columns: Mapping[str, Column] = field(default_factory=dict)
    frames: RowFrames | None = None

    def __len__(self) -> int:
        return len(self.path)

    def __iter__(self) -> Iterator[VideoEntry]:
        for start in range(0, len(self), _MADE_AT_ONCE):
            yield from self._entries(slice(start, start + _MADE_AT_ONCE))

    @overload
    def __getitem__(self, row: int) -> VideoEntry: ...
    @overload
    def __getitem__(self, row: slice) -> EntryTable: ...
    def __getitem__(self, row: int | slice) -> VideoEntry | EntryTable:
        if isinstance(row, slice):
            return self.take(positions_in_slice(row, len(self)))
        place = row_number(row, len(self))
        return self._entries(slice(place, place + 1))[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntryTable):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash((len(self), self.path[0], self.path[-1]) if len(self) else 0)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'row')} from {self.path[0]!r}>" if len(self) else "<no rows>"

    def _entries(self, part: slice) -> list[VideoEntry]:
        numbers = [
            [None if value == none or value != value else value for value in getattr(self, name)[part].tolist()]
            for name, none in _NONE.items()
        ]
        columns = [plain(column[part]) for column in self.columns.values()]
        cells = zip(*columns, strict=True) if columns else repeat(())
        in_pts = self.in_pts[part].tolist()
        return [
            VideoEntry(
                path,
                label,
                start=start,
                stop=stop,
                start_seconds=begin,
                stop_seconds=end,
                columns=RowColumns(
                    {name: value for name, value in zip(self.columns, row, strict=True) if value is not ABSENT}
                ),
                times="pts" if raw else "start",
            )
            for path, label, start, stop, begin, end, raw, row in zip(
                self.path[part], *numbers, in_pts, cells, strict=False
            )
        ]

    def column(self, name: str) -> list[Any]:
        """The values of one of the other columns in all rows.

        Raises:
            ConfigurationError: a row has no such column.
        """
        if name not in self.columns:
            raise no_such_column(name, self.columns, "the data set ")
        values = list(plain(self.columns[name]))
        for row, value in enumerate(values):
            if value is ABSENT:
                raise no_such_column(name, self[row].columns, source=self.path[row])
        return values

    def with_times(self, times: Times) -> EntryTable:
        """The same rows with another zero point of their seconds; see ``VideoEntry.times``.

        Raises:
            ConfigurationError: ``times`` has another value.
        """
        check_choice("times", times, get_args(Times))
        return replace(self, in_pts=constant(times == "pts", len(self)), frames=None)

    def take(self, rows: Rows) -> EntryTable:
        """The rows with these numbers, in the order of ``rows``, repeats allowed."""
        fields: dict[str, Any] = {name: take(getattr(self, name), rows) for name in ("path", *ARRAYS)}
        columns = {name: take(column, rows) for name, column in self.columns.items()}
        return EntryTable(**fields, columns=columns, frames=self.frames and self.frames.take(rows))

    @staticmethod
    def join(tables: Sequence[EntryTable]) -> EntryTable:
        """The concatenation of all tables; a column that one of them lacks is absent in its rows."""
        fields: dict[str, Any] = {name: join([getattr(table, name) for table in tables]) for name in ("path", *ARRAYS)}
        names = dict.fromkeys(name for table in tables for name in table.columns)
        columns = {
            name: join([table.columns[name] if name in table.columns else [ABSENT] * len(table) for table in tables])
            for name in names
        }
        return EntryTable(**fields, columns=columns)

    @staticmethod
    def of_entries(entries: Iterable[VideoEntry]) -> EntryTable:
        """A table of existing entries."""
        rows = _checked(entries)
        names = dict.fromkeys(name for row in rows for name in row.columns)
        fields: dict[str, Any] = {name: array_of(name, (getattr(row, name) for row in rows)) for name in _NONE}
        return EntryTable(
            PackedStrings(row.path for row in rows),
            **fields,
            in_pts=np.array([row.times == "pts" for row in rows], np.bool_),
            columns={name: pack([row.columns.get(name, ABSENT) for row in rows]) for name in names},
        )


def _checked(entries: object) -> list[VideoEntry]:
    readers = ": VideoDataset.from_folder takes a folder, from_csv a table, from_paths a list of paths"
    is_path, is_list = isinstance(entries, str | os.PathLike), isinstance(entries, Iterable)
    check("entries", entries, is_list and not is_path, "a list of VideoEntry", readers if is_path else "")
    rows: list[VideoEntry] = list(entries)  # type: ignore[call-overload]  # checked above
    for row, entry in enumerate(rows):
        if not isinstance(entry, VideoEntry):
            hint = "VideoDataset.from_paths(paths, labels) takes paths"
            raise ConfigurationError(f"entries[{row}] must be a VideoEntry, got {entry!r}: {hint}")
    return rows


def array_of(name: str, values: Iterable[float | None]) -> npt.NDArray[Any]:
    """The array of a field, from values of which None means missing."""
    none = _NONE[name]
    dtype = np.int64 if isinstance(none, int) else np.float64
    array = np.fromiter((none if value is None else value for value in values), dtype)
    empty: np.bool_ = (array == none).all() or np.isnan(array).all()
    return constant(none, len(array)) if empty else array


def make_table(
    path: PackedStrings,
    fields: Mapping[str, npt.NDArray[Any]],
    columns: Mapping[str, Column],
    where: Callable[[int], str],
) -> EntryTable:
    """Make a table from columns, and check all rows.

    Args:
        path: path of each video.
        fields: arrays of other fields, as in ``EntryTable``; a field that is not given is missing in all rows.
        columns: the other columns.
        where: gives the place where a row was read, for messages.

    Raises:
        ConfigurationError: a row is invalid, as in ``VideoEntry``; the message names the first.
    """
    rest = {name: constant(none, len(path)) for name, none in _NONE.items() if name not in fields}
    known: dict[str, Any] = {**fields, **rest}
    table = EntryTable(path, **known, in_pts=constant(False, len(path)), columns=columns)
    for row in np.flatnonzero(_suspect(table)).tolist():
        try:
            table[row]
        except ConfigurationError as error:
            raise ConfigurationError(f"{where(row)}: {error}") from None
    return table


def _suspect(table: EntryTable) -> npt.NDArray[np.bool_]:
    """bool[N]: the rows that ``VideoEntry`` may reject."""
    started, stopped = table.start != NONE, table.stop != NONE
    first, begin, end = np.where(started, table.start, 0), table.start_seconds, table.stop_seconds
    suspect: npt.NDArray[np.bool_] = (table.path.sizes == 0) | (first < 0) | (stopped & (table.stop <= first))
    suspect |= (started & ~np.isnan(begin)) | (stopped & ~np.isnan(end))
    suspect |= (table.label < 0) & (table.label != NONE)
    suspect |= (begin >= end) | (begin <= -1) | np.isinf(begin) | np.isinf(end)
    return suspect
