"""Turn users' numbers into exact fractions, without rounding."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from videoloader.errors import ConfigurationError

# Nominal rates that NTSC countries slow down by 1000/1001 (SMPTE ST 12-1, 5.2).
_SLOWED = (15, 24, 30, 48, 60, 90, 120, 240)
# More than any float has, before the point or zeros behind it. A text of a few letters could mean a billion digits.
_MOST_DIGITS = 400


def exact(name: str, value: Any) -> Fraction:
    """Return the number that is meant: a float is taken as the decimal that it prints as.

    Raises:
        ConfigurationError: the value is no finite number.

    Examples:
        >>> exact("seconds", 0.12)
        Fraction(3, 25)
    """
    if isinstance(value, Rational | np.integer) and not isinstance(value, bool):
        return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
    try:
        # For numpy's numbers, also float32, str gives the shortest decimal, too.
        number = Decimal(str(value)) if isinstance(value, float | np.floating | Decimal) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        raise ConfigurationError(f"{name} must be a finite number, got {value!r}")
    return Fraction(number)


def number_of_text(text: str) -> Fraction | Decimal:
    """Return the number that a text is, such as ``29.97`` or ``30000/1001``. It may be huge, or not finite.

    Raises:
        ValueError, ArithmeticError: it is none, or has an underscore: Python takes 1_0 for 10.
    """
    if "_" in text:
        raise ValueError
    return Fraction(text) if "/" in text else Decimal(text)


def float_of(value: Any) -> float:
    """Return a number, or the number that a text is; see ``number_of_text``.

    Raises:
        TypeError, ValueError, ArithmeticError: it is none, such as bytes, which Python's own ``float`` takes.
    """
    if isinstance(value, bytes | bytearray):
        raise TypeError
    return float(number_of_text(value) if isinstance(value, str) else value)


def exact_rate(value: Any) -> Fraction:
    """Return the frames per second that are meant: as ``exact``, but a decimal may stand for an NTSC rate.

    23.98, 23.976, 29.97, 59.94 and similar decimals of two places or more mean 24000/1001, 30000/1001, 60000/1001, … if
    they are such a rate rounded to that number of places.

    Raises:
        ConfigurationError: the value is no positive finite number.

    Examples:
        >>> exact_rate(29.97), exact_rate(12.5)
        (Fraction(30000, 1001), Fraction(25, 2))
    """
    rate = exact("fps", value)
    if rate <= 0:
        raise ConfigurationError(f"fps must be positive, got {value!r}")
    if isinstance(value, Rational | np.integer):
        return rate
    places = -int(Decimal(str(value)).as_tuple().exponent)
    slowed = (Fraction(nominal * 1000, 1001) for nominal in _SLOWED)
    meant = (ntsc for ntsc in slowed if (places >= 2 and round(ntsc, places) == rate) or float(ntsc) == value)
    return next(meant, rate)
