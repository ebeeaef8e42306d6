"""Checks arguments of transforms when they are made."""

from __future__ import annotations

from videoloader import padding
from videoloader.errors import ConfigurationError


def check_border_mode(name: str, mode: str) -> None:
    """Raise ConfigurationError, which names the argument, unless borders can be made in this mode."""
    try:
        known = padding.check_mode(mode)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    if known == "none":
        raise ConfigurationError(f"{name} is 'none', in which no frame is padded")
