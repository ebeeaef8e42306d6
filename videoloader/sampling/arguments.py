"""What the arguments of frame modes may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from videoloader.errors import ConfigurationError


def check_positive(**arguments: Any) -> None:
    """Raise ConfigurationError unless all arguments are positive integers."""
    for name, value in arguments.items():
        if not _is_integer(value) or value < 1:
            raise ConfigurationError(f"{name} must be a positive integer, got {value!r}")


def check_probability(**arguments: Any) -> None:
    """Raise ConfigurationError unless all arguments are numbers in [0, 1]."""
    for name, value in arguments.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float, np.integer, np.floating))
            or not 0 <= value <= 1
        ):
            raise ConfigurationError(f"{name} must be a number in [0, 1], got {value!r}")


def check_flag(**arguments: Any) -> None:
    """Raise ConfigurationError unless all arguments are True or False."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name} must be True or False, got {value!r}")


def integer_tuple(name: str, values: Any) -> tuple[int, ...]:
    """One or more integers as a tuple of Python's own, so that two equal modes are equal and have one hash.

    Raises:
        ConfigurationError: it is anything else.
    """
    try:
        numbers = np.asarray(values)
    except ValueError:  # a list of lists of different lengths
        numbers = np.empty(0)
    integers = np.issubdtype(numbers.dtype, np.integer) and np.can_cast(numbers.dtype, np.int64)
    if numbers.ndim != 1 or not numbers.size or not integers:
        raise ConfigurationError(f"{name} must be a list of one or more integers, got {values!r}")
    return tuple(numbers.tolist())


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
