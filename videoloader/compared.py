"""Labels and columns for users' conditions, which raise an error when compared with a value they can never equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from videoloader.errors import ArgumentError


class MissingColumnError(ArgumentError, KeyError):
    """A row has no column of this name."""


class ClassNumber(int):
    """A class number.

    Raises:
        ArgumentError: it is compared with text, which no number equals.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            wanted = f"data.class_names.index({other!r}) is that of a name"
            raise ArgumentError(f"labels are numbers of classes, here {self}, and equal no text: {wanted}")
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class ColumnText(str):
    """A text from a column.

    Raises:
        ArgumentError: it is compared with a number, which no text equals.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float):
            told = f"the column's value {str(self)!r} is a text, as all are in CSV, and equals no number"
            raise ArgumentError(f"{told}: compare it with {str(other)!r}, or int(…) of it with {other}")
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Columns(dict[str, Any]):
    """The columns of a row; asking for a missing one raises an error that names those that exist."""

    def __missing__(self, name: object) -> NoReturn:
        raise MissingColumnError(f"there is no column {name!r}: the row's columns are {', '.join(self) or 'none'}")


def compared_label(label: int | None) -> ClassNumber | None:
    """A label for a user's condition; None stays None."""
    return None if label is None else ClassNumber(label)


def compared_columns(columns: Mapping[str, Any]) -> Columns:
    """The columns of a row for a user's condition."""
    return Columns({name: ColumnText(each) if type(each) is str else each for name, each in columns.items()})
