"""Checks the arguments of frame modes by the types of their fields."""

from __future__ import annotations

from collections.abc import Callable
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
