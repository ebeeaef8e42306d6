"""The label of a row or a clip: an integer that says so where it is compared with the name of a class."""

from __future__ import annotations

from videoloader.errors import ArgumentError


class ClassNumber(int):
    """The number of a class.

    Raises:
        ArgumentError: it is compared with a text, to which no number is equal.
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


def class_number(label: int | None) -> ClassNumber | None:
    """A label for a program's own condition; None stays None."""
    return None if label is None else ClassNumber(label)
