"""Checks of arguments, and of what users' functions return."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoloader.errors import ArgumentError, ConfigurationError, warn_user
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.errors.short_text import repr_of, short_text

_T = TypeVar("_T")
# The largest integer that files, arrays and tensors hold.
_LARGEST = (1 << 63) - 1


def given(value: object) -> str:
    """A value for a message; arrays and tensors by type and shape, huge integers by their size."""
    if isinstance(value, int) and value.bit_length() > 256:
        return short_text(value)
    dimensions = getattr(value, "ndim", None)  # the module numpy has a function of this name
    is_array = hasattr(value, "dtype") and isinstance(dimensions, int) and dimensions > 0
    try:
        return f"{value.dtype} of shape {tuple(value.shape)}" if is_array else repr_of(value)  # type: ignore[attr-defined]
    except (RuntimeError, TypeError):  # PyTorch's nested tensors have no shape
        return f"a {type(value).__name__} without a shape"


def shortened(value: Any) -> str:
    """A value shortened for a message: arrays by type and shape, other values as a short ``repr``."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return given(value) if isinstance(value, int) or getattr(value, "ndim", False) else short_text(value)


def array_of(result: object) -> npt.NDArray[Any] | None:
    """The array that a user's code returned; None if NumPy makes none of it, as of a tensor with a gradient."""
    try:
        return np.asarray(result)
    except (RuntimeError, TypeError, ValueError) as error:
        raise_of_handler(error)
        return None


def check(name: str, value: object, holds: object, wanted: str, hint: str = "", source: str | None = None) -> None:
    """Raise ConfigurationError unless an argument is right; for what is checked once, since the message is always made.

    Args:
        name: the argument's name, for the message: ``"layout"``, ``"Pad's position"``.
        value: the user's value.
        holds: truth value. The argument is right if it is true.
        wanted: description of a right value, for the message.
        hint: the end of the message.
        source: see ``VideoLoaderError``.
    """
    if not holds:
        raise ConfigurationError(f"{name} must be {wanted}, got {given(value)}{hint}", source)


def check_type(name: str, value: object, holds: object, wanted: str, hint: str = "") -> None:
    """Raise ArgumentError unless an argument has the right type; see ``check``. The message shortens long values."""
    if not holds:
        raise ArgumentError(f"{name} must be {wanted}, got {shortened(value)}{hint}")


def check_shape(name: str, tensor: Any, holds: object, wanted: str) -> None:
    """Raise ConfigurationError unless a tensor has the right type and shape; see ``check``."""
    if not holds:
        raise ConfigurationError(f"{name} must be {wanted}, got {tensor.dtype} {list(tensor.shape)}")


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise ConfigurationError unless an argument has one of the allowed values."""
    values = tuple(allowed)
    # A look at the type first: asking an abstract base class takes a microsecond, and geometries are checked per clip.
    try:
        is_one = (type(value) is str or isinstance(value, Hashable)) and value in values
    except TypeError:  # of NumPy, for a structured value
        is_one = False
    if not is_one:
        raise ConfigurationError(f"{name} must be one of {', '.join(map(str, values))}, got {given(value)}")


def check_integer(name: str, value: object, low: int = 1, high: int | None = None) -> int:
    """The argument as Python's int.

    Raises:
        ConfigurationError: it is no integer, below ``low``, or above ``high`` or what 64 bits hold.
    """
    number = int(value) if is_integer(value) else low - 1  # type: ignore[call-overload]
    if low <= number <= (_LARGEST if high is None else high):
        return number
    allowed = "a positive integer" if low == 1 else f"an integer of at least {low}"
    allowed += f", at most {_LARGEST}" if number > _LARGEST else ""
    raise ConfigurationError(
        f"{name} must be {allowed if high is None else f'an integer in [{low}, {high}]'}, got {given(value)}"
    )


def check_count(name: str, value: object) -> int:
    """The argument as Python's int, a number of frames or clips.

    Raises:
        ConfigurationError: it is no positive integer, or so many would fill any memory by their numbers alone.
    """
    check_integer(name, value)
    return check_integer(name, value, 1, 1 << 24)


def path_text(name: str, value: object) -> str:
    """A path argument as a string.

    Raises:
        ArgumentError: it is not a path; the message calls it ``name``.
    """
    try:
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
    except TypeError as error:  # its ``__fspath__`` gives something else
        raise_of_handler(error)
        path = None
    if not isinstance(path, str):
        hint = ": give labels=[…] beside the paths" if isinstance(value, tuple) else ""
        raise ArgumentError(f"{name} must be a string or a Path, got {value!r}{hint}")
    return path


def check_size(name: str, value: Any) -> None:
    """Raise ConfigurationError unless an argument is a positive int or (height, width)."""
    sides = both_ends(value)
    sound = len(sides) == 2 and all(type(each) is int and each > 0 for each in sides)
    check(name, value, sound, "a positive integer or (height, width)")


def check_numbers(name: str, value: object, count: int | None, wanted: str, allowed: Callable[..., bool]) -> None:
    """Raise ConfigurationError unless an argument is ``count`` finite numbers that can be used together.

    Args:
        name, value, wanted: as in ``check``.
        count: length of the tuple; None for a single number.
        allowed: whether these numbers can be used.
    """
    numbers = (value,) if count is None else value
    known = isinstance(numbers, tuple) and len(numbers) == (count or 1) and all(map(is_finite, numbers))
    check(name, value, known and allowed(*numbers), wanted)  # type: ignore[misc]  # it is a tuple


def check_weights(name: str, value: object, count: int) -> None:
    """Raise ConfigurationError unless an argument is a tuple of ``count`` weights."""
    wanted = f"{count} finite weights of at least 0, one above 0"
    check_numbers(name, value, count, wanted, lambda *each: min(each) >= 0 < sum(each) < math.inf)


def is_integer(value: object) -> bool:
    """Whether a value is an integer of any library; True and False are none."""
    # To NumPy, a time difference is an integer, too, in any unit.
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64))


def is_finite(value: object) -> bool:
    """Whether a value is a number, neither infinite nor NaN; True and False are none."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer that is larger than every float
        return False


def check_positive(**arguments: object) -> None:
    """Raise ConfigurationError unless all arguments are positive integers."""
    for name, value in arguments.items():
        check_integer(name, value)


def check_positive_or_none(**arguments: object) -> None:
    """Raise ConfigurationError unless all arguments are None or positive integers."""
    check_positive(**{name: value for name, value in arguments.items() if value is not None})


def check_uint64(**arguments: int) -> None:
    """Raise ConfigurationError unless all arguments are integers in [0, 2**64), as the keys of random numbers are."""
    for name, value in arguments.items():
        if (type(value) is not int and not isinstance(value, Integral)) or not 0 <= value < 2**64:
            raise ConfigurationError(f"{name} must be an integer in [0, 2**64), got {given(value)}")


def check_shared_epoch(epoch: int) -> None:
    """Raise ConfigurationError unless an epoch is an integer that fits into the int64 that processes share."""
    check_uint64(epoch=epoch)
    check("epoch", epoch, epoch < 2**63, "an integer in [0, 2**63)")


def check_probability(name: str, value: object) -> None:
    """Raise ConfigurationError unless an argument is a number in [0, 1]."""
    check_numbers(name, value, None, "a number in [0, 1]", lambda number: 0 <= number <= 1)


def check_flag(name: str, value: object) -> None:
    """Raise ConfigurationError unless an argument is True or False."""
    check(name, value, isinstance(value, bool), "True or False")


def is_true(name: str, given: object) -> bool:
    """Whether the result of a user's function means yes.

    Args:
        name: name of the function, for the message.
        given: its result.

    Raises:
        ConfigurationError: it is a text that says no, which Python takes for True, or an array of several values.
    """
    if isinstance(given, str) and given.strip().lower() in ("0", "0.0", "false", "no"):
        hint = f'columns of CSV are text, compare them (columns["…"] != {given!r})'
        raise ConfigurationError(f"{name} gives {given!r}, which Python takes for True: {hint}")
    try:
        return bool(given)
    except (RuntimeError, ValueError):  # arrays and tensors of several values
        raise ConfigurationError(f"{name} must give True or False, got {short_text(given)}") from None


class ClassNumber(int):
    """A label in the hands of a user's condition. It warns where it is compared with what no label equals.

    Attributes:
        classes: the number of classes; 0 where it is not known.
    """

    classes = 0

    def __eq__(self, other: object) -> bool:
        self._tell_of(other)
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        self._tell_of(other)
        return int(self) != other

    __hash__ = int.__hash__

    def _tell_of(self, other: object) -> None:
        if isinstance(other, str) and other:
            number = f"data.class_names.index({other!r}) is the number of a name"
            warn_user(f"a label is compared with {other!r}, but labels are numbers, and equal no text: {number}")
        elif isinstance(other, Integral) and not 0 <= int(other) < (self.classes or math.inf):
            last = f"to {self.classes - 1}" if self.classes else "on"
            warn_user(f"a label is compared with {other}, but labels are numbers from 0 {last}, and None where missing")


def both_ends(value: _T | tuple[_T, _T]) -> tuple[_T, _T]:
    """The two values of a pair, or one value twice."""
    return value if isinstance(value, tuple) else (value, value)


def integer_range(name: str, value: object) -> tuple[int, int]:
    """(least, largest) from an argument that is a positive integer or a pair of them.

    Raises:
        ConfigurationError: it is neither.
    """
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    check(name, value, len(pair) == 2, "a number or (least, largest)")
    least, largest = (check_count(name, each) for each in pair)
    check(name, value, least <= largest, "(least, largest)")
    return least, largest
