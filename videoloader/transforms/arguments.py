"""Checks of what transforms are given, when they are made."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from videoloader.errors import ConfigurationError


def check_probability(value: Any, name: str) -> None:
    """Refuse a number outside [0, 1].

    Args:
        value: as the user gave it.
        name: of transform and parameter for the message: ``"Reverse's p"``.

    Raises:
        ConfigurationError: as said.
    """
    if not (isinstance(value, Real) and 0 <= float(value) <= 1):
        raise ConfigurationError(f"{name} is {value!r}, not in [0, 1]")


def check_whole(value: Any, name: str, low: int) -> None:
    """Refuse what is no whole number of at least ``low``; see ``check_probability``."""
    if not (isinstance(value, Integral) and int(value) >= low):
        raise ConfigurationError(f"{name} is {value!r}, not a whole number of at least {low}")
