"""Checks of what transforms are given, when they are made."""

from __future__ import annotations

from typing import get_args

from videoloader import padding
from videoloader.convert import Interpolation
from videoloader.errors import ConfigurationError, check_choice


def check_interpolation(interpolation: str) -> None:
    """Raise ConfigurationError if there is no such interpolation."""
    check_choice("interpolation", interpolation, get_args(Interpolation))


def check_border_mode(mode: str, name: str) -> None:
    """Raise ConfigurationError, which names the step, if no border can be made in this mode."""
    try:
        known = padding.check_mode(mode)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    if known == "none":
        raise ConfigurationError(f"{name} cannot pad frames in mode 'none'")
