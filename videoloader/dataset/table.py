"""The rows of a data set, kept by columns: a million rows of a video each take about 100 MB, most of it paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq, index
from types import NoneType
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import (
    ABSENT,
    Column,
    PackedStrings,
    Rows,
    absent,
    constant,
    join,
    pack,
    take,
    value_at,
)
from videoloader.dataset.entry import VideoEntry
from videoloader.errors import ConfigurationError

# Stands in integer columns where a row has no value; in seconds it is NaN.
NONE = -(2**63)
_NONE: dict[str, int | float] = {
    "label": NONE,
    "start": NONE,
    "stop": NONE,
    "start_seconds": math.nan,
    "stop_seconds": math.nan,
}


@dataclass(frozen=True, eq=False)
class EntryTable(Sequence[VideoEntry]):
    """The fields of all entries. Arrays may be one value seen many times, so they cannot be written to.

    Attributes:
        path: of each video.
        label: int64[N], ``NONE`` where there is none.
        start, stop: int64[N], ``NONE`` where there is none.
        start_seconds, stop_seconds: float64[N], NaN where there is none.
        columns: of the rows that have them; ``ABSENT`` in the others.
    """

    path: PackedStrings
    label: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    start_seconds: npt.NDArray[np.float64]
    stop_seconds: npt.NDArray[np.float64]
    columns: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.path)

    def __iter__(self) -> Iterator[VideoEntry]:
        return map(self._entry, range(len(self)))

    @overload
    def __getitem__(self, row: int) -> VideoEntry: ...
    @overload
    def __getitem__(self, row: slice) -> EntryTable: ...
    def __getitem__(self, row: int | slice) -> VideoEntry | EntryTable:
        return self.take(np.arange(len(self))[row]) if isinstance(row, slice) else self._entry(range(len(self))[row])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntryTable):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash((len(self), self.path[0], self.path[-1]) if len(self) else 0)

    def __repr__(self) -> str:
        return f"<{len(self)} rows from {self.path[0]!r}>" if len(self) else "<no rows>"

    def _entry(self, row: int) -> VideoEntry:
        label, start, stop = self.label.item(row), self.start.item(row), self.stop.item(row)
        begin, end = self.start_seconds.item(row), self.stop_seconds.item(row)
        columns = {name: value_at(column, row) for name, column in self.columns.items()}
        return VideoEntry(
            self.path[row],
            None if label == NONE else label,
            start=None if start == NONE else start,
            stop=None if stop == NONE else stop,
            start_seconds=begin if begin == begin else None,
            stop_seconds=end if end == end else None,
            columns={name: value for name, value in columns.items() if value is not ABSENT},
        )

    def column(self, name: str) -> list[Any]:
        """The values of one of the other columns, of all rows.

        Raises:
            ConfigurationError: a row has no such column.
        """
        if name not in self.columns:
            raise ConfigurationError(f"there is no column {name!r}: {', '.join(self.columns) or 'none but the path'}")
        column = self.columns[name]
        values = column.tolist() if isinstance(column, np.ndarray) else list(column)
        for row, value in enumerate(values):
            if value is ABSENT:
                raise ConfigurationError(f"has no column {name!r}", self.path[row])
        return values

    def take(self, rows: Rows) -> EntryTable:
        """The rows of these numbers, in their order, repeats allowed."""
        fields: dict[str, Any] = {name: take(getattr(self, name), rows) for name in ("path", *_NONE)}
        return EntryTable(**fields, columns={name: take(column, rows) for name, column in self.columns.items()})

    def with_labels(self, label: npt.NDArray[np.int64]) -> EntryTable:
        """The same rows with other labels."""
        ends = (self.start, self.stop, self.start_seconds, self.stop_seconds)
        return EntryTable(self.path, label, *ends, self.columns)

    @staticmethod
    def join(tables: Sequence[EntryTable]) -> EntryTable:
        """The rows of all tables, one after the other; a column that one of them lacks is absent in its rows."""
        fields: dict[str, Any] = {name: join([getattr(table, name) for table in tables]) for name in ("path", *_NONE)}
        names = dict.fromkeys(name for table in tables for name in table.columns)
        columns = {
            name: join([table.columns[name] if name in table.columns else absent(len(table)) for table in tables])
            for name in names
        }
        return EntryTable(**fields, columns=columns)

    @staticmethod
    def of_entries(entries: Iterable[VideoEntry]) -> EntryTable:
        """A table of rows that there are already."""
        rows = list(entries)
        names = dict.fromkeys(name for row in rows for name in row.columns)
        return EntryTable(
            PackedStrings(row.path for row in rows),
            **{name: _numbers(name, [getattr(row, name) for row in rows]) for name in _NONE},
            columns={name: pack([row.columns.get(name, ABSENT) for row in rows]) for name in names},
        )


def make_table(
    path: PackedStrings,
    fields: Mapping[str, Sequence[Any]],
    columns: Mapping[str, Column],
    where: Callable[[int], str],
) -> EntryTable:
    """A table of columns, each row of which makes sense.

    Args:
        path: of each video.
        fields: values of other fields of ``VideoEntry``, None where a row has none.
        columns: of its ``columns``.
        where: says in messages where a row was read.

    Raises:
        ConfigurationError: as for ``VideoEntry``, of the first row that makes no sense.
    """
    try:
        given = {name: _numbers(name, values) for name, values in fields.items()}
    except (OverflowError, TypeError, ValueError):
        given = None
    if given is not None:
        rest = {name: constant(none, len(path)) for name, none in _NONE.items() if name not in given}
        table = EntryTable(path, **given, **rest, columns=columns)
        if path.sizes.all() and _makes_sense(table, fields):
            return table
    for row in range(len(path)):
        try:
            VideoEntry(path[row], **{name: values[row] for name, values in fields.items()})
        except ConfigurationError as error:
            raise ConfigurationError(f"{where(row)}: {error}") from None
    raise AssertionError("rows were refused together that are accepted one by one")


def _makes_sense(table: EntryTable, fields: Mapping[str, Sequence[Any]]) -> bool:
    """Whether ``VideoEntry`` would take every row."""
    for name in ("start_seconds", "stop_seconds"):
        values = getattr(table, name)
        # Not a number is what stands for none, so it must not have been given.
        if np.isinf(values).any() or (name in fields and np.isnan(values).sum() != list(fields[name]).count(None)):
            return False
    started, stopped = table.start != NONE, table.stop != NONE
    first = np.where(started, table.start, 0)
    return not (
        (first < 0).any()
        or (stopped & (table.stop <= first)).any()
        or (started & ~np.isnan(table.start_seconds)).any()
        or (stopped & ~np.isnan(table.stop_seconds)).any()
        or (table.start_seconds >= table.stop_seconds).any()
    )


def _numbers(name: str, values: Sequence[Any]) -> npt.NDArray[Any]:
    none = _NONE[name]
    if all(value is None for value in values):
        return constant(none, len(values))
    if not isinstance(none, int):
        return np.array([none if value is None else value for value in values], np.float64)
    if not set(map(type, values)) <= {int, NoneType}:
        # Numbers of other types, e.g. numpy's; never a fraction, which an array of integers would cut off.
        values = [value if value is None else index(value) for value in values]
    return np.array([none if value is None else value for value in values], np.int64)
