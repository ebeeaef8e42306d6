"""Labels and columns for users' conditions, which raise an error when compared with a value they can never equal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from videoloader.errors import ArgumentError, warn_user


class MissingColumnError(ArgumentError, KeyError):
    """A row has no column of this name."""


class ClassNumber(int):
    """The number of a class, which warns where it is compared with a name, to which no number is equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and other:
            wanted = f"data.class_names.index({other!r}) is that of a name"
            warn_user(f"labels are numbers of classes, and equal no text: {wanted}")
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class ColumnText(str):
    """A text in a column, which warns where it is compared with the number that it reads as: no text equals one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float) and _number(self) == other:
            told = f"the column's value {str(self)!r} is a text, as all are in CSV, and equals no number"
            warn_user(f"{told}: compare it with {str(self)!r}, or int(…) of it with {other}")
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _number(text: str) -> float | None:
    """The number or truth that a text reads as."""
    with suppress(ValueError):
        return float({"true": "1", "false": "0"}.get(text.lower(), text))
    return None


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
