"""Immutable sequences: changing one, or searching it for an item of the wrong type, raises an error."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from videoloader.errors import ArgumentError, RowRangeError, counted
from videoloader.errors.short_text import short_text

T_co = TypeVar("T_co", covariant=True)


def row_number(row: int, count: int) -> int:
    """The row, counted from the start, that ``sequence[row]`` means in a sequence of ``count`` rows.

    Raises:
        RowRangeError: there is no such row.
        ArgumentError: ``row`` is not an integer.
    """
    try:
        return range(count)[row]
    except IndexError:
        raise RowRangeError(f"row {short_text(row)} is outside the {counted(count, 'row')}") from None
    except TypeError:
        raise ArgumentError(f"rows are chosen by a number or a slice, got {short_text(row)}") from None


class Unchanging(Sequence[T_co]):
    """An immutable sequence of items of one type."""

    # The type of the items, and a hint for those who search for something else.
    _holds: ClassVar[tuple[type, str]]

    def __contains__(self, item: object) -> bool:
        return super().__contains__(self._sought(item))

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The position of the first item that equals this one; see ``list.index``."""
        for place in range(*slice(start, stop).indices(len(self))):
            if self[place] == self._sought(value):
                return place
        raise ArgumentError(f"{short_text(value)} is not in this sequence of {len(self)} items")

    def count(self, value: Any) -> int:
        """The number of items that equal this value."""
        return super().count(self._sought(value))

    def _sought(self, item: object) -> object:
        kind, instead = self._holds
        if isinstance(item, kind):
            return item
        if not isinstance(item, str | os.PathLike):
            return object()  # equal to none; arrays compare element by element
        raise ArgumentError(f"only a {kind.__name__} can be in it, got {short_text(item)}: {instead}")

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __setitem__(self, place: object, item: object) -> NoReturn:
            raise ArgumentError(
                "rows of a data set do not change: make another data set, as VideoDataset([replace(entry, label=0) for "
                "entry in data]), by dataclasses.replace, or data[rows]"
            )

        def __delitem__(self, place: object) -> None:
            self[place] = None

        def __radd__(self, other: object) -> object:
            # ``sum`` starts with 0.
            return self if type(other) is int and other == 0 else NotImplemented

        def __mul__(self, times: object) -> NoReturn:
            raise ArgumentError("rows are repeated by addition, as data + data, or by data.weighted or data.balanced")

        __rmul__ = __mul__
