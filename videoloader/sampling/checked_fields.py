"""Bases of frame modes: they check arguments by the types of their fields, and keep the ``repr`` of saved states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from videoloader.checks import check_flag, check_integer, check_positive_or_none
from videoloader.sampling.columns import check_pad

# The numbers of more frames would fill any memory by themselves.
_MOST = 1 << 24


def _check_count(name: str, value: Any) -> None:
    check_integer(name, value)
    check_integer(name, value, 1, _MOST)


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "int": _check_count,
    "int | None": lambda name, value: check_positive_or_none(**{name: value}),
    "bool": check_flag,
    "Pad": lambda name, value: check_pad(value),
}


class CheckedFields:
    """Base of frame modes: checks that integers are positive, and that flags and padding modes are valid."""

    def __post_init__(self) -> None:
        for owner in type(self).__mro__:
            if owner.__module__.startswith("videoloader."):  # a user's own fields may be anything
                for name, kind in vars(owner).get("__annotations__", {}).items():
                    if kind in _CHECKS:
                        _CHECKS[kind](name, getattr(self, name))


class SavedRepr:
    """A frozen dataclass whose ``repr`` shows fields that were added in later versions only when they are set.

    Loader states hold the ``repr`` of their modes, so states saved before a field existed still match. Declare such
    fields with ``field(repr=False)``, and the class with ``dataclass(repr=False)``.
    """

    def __repr__(self) -> str:
        named = [(each, getattr(self, each.name)) for each in fields(self)]  # type: ignore[arg-type]
        shown = [f"{each.name}={value!r}" for each, value in named if each.repr or value != each.default]
        return f"{type(self).__name__}({', '.join(shown)})"
