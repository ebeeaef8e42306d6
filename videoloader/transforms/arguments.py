"""Checks of what transforms are given, when they are made."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, get_args

from videoloader import padding
from videoloader.convert import Interpolation
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


def check_whole(value: Any, name: str, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number in [``low``, ``high``]; see ``check_probability``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < low or (high is not None and int(value) > high):
        allowed = f"of at least {low}" if high is None else f"in [{low}, {high}]"
        raise ConfigurationError(f"{name} is {value!r}, not a whole number {allowed}")


def check_interpolation(interpolation: str) -> None:
    """Raise ConfigurationError if there is no such interpolation."""
    if interpolation not in get_args(Interpolation):
        allowed = ", ".join(get_args(Interpolation))
        raise ConfigurationError(f"interpolation is {interpolation!r}, not one of {allowed}")


def check_border_mode(mode: str, name: str) -> None:
    """Raise ConfigurationError, which names the step, if no border can be made in this mode."""
    try:
        known = padding.check_mode(mode)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    if known == "none":
        raise ConfigurationError(f"{name} cannot pad frames in mode 'none'")
