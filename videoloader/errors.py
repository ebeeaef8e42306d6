"""The errors and warnings of this library, and the checks of arguments.

Errors name the source and, where known, the frame or byte offset.
"""

from __future__ import annotations

import errno
import math
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, TypeVar

_T = TypeVar("_T")
# Control characters but those of white space.
_STEERS_TERMINALS = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class VideoLoaderError(Exception):
    """Base of all errors of this library.

    Args:
        message: str. The fault, in one sentence.
        source: str, default None. The path or name of the video that the error is about; it comes before the message.

    Attributes:
        message, source: as given.
    """

    # What rows that are left out because of it are counted as.
    counted_as = "unreadable"

    def __init__(self, message: str, source: str | None = None) -> None:
        super().__init__(f"{source}: {message}" if source else message)
        self.message = message
        self.source = source

    def __str__(self) -> str:
        return printable(" ".join(Exception.__str__(self).split("\n")))


class SourceError(VideoLoaderError):
    """The bytes cannot be read: the file does not exist, may not be read, or ends early."""

    counted_as = "cannot be opened"


class IndexingError(VideoLoaderError):
    """The container's tables are missing, are damaged, or contradict the file."""

    counted_as = "damaged"


class UnsupportedError(VideoLoaderError):
    """The file is intact, but cannot be decoded here: it is encrypted, has no video stream, or its codec is unknown."""

    counted_as = "cannot be decoded"


class NotIndexedError(VideoLoaderError, LookupError):
    """An index store has no row for a video, because it was built without it."""


class StaleIndexError(SourceError):
    """A video has changed since it was indexed."""

    counted_as = "changed since they were indexed"


class DecodeError(VideoLoaderError):
    """The decoder rejected the packets, or did not return a requested frame.

    Args:
        message, source: as in every error.
        packet: number of the packet that caused it, where known.
    """

    counted_as = "cannot be decoded"

    def __init__(self, message: str, source: str | None = None, packet: int | None = None) -> None:
        super().__init__(message, source)
        self.packet = packet


class CorruptFramesError(DecodeError):
    """Requested frames are damaged, and ``on_corrupt`` makes that an error."""


class FrameRangeError(VideoLoaderError, IndexError):
    """A frame number lies outside the video."""

    counted_as = "outside of their video"


class NoMemoryError(VideoLoaderError, MemoryError):
    """The system lacks memory for the requested frames, or for what a file's headers claim."""


class ConfigurationError(VideoLoaderError, ValueError):
    """An argument has a value that cannot work. It is raised by the call that was given the argument."""


class ArgumentError(ConfigurationError, TypeError):
    """An argument has a wrong type, is missing, or has a name that does not exist."""


class MissingAttributeError(VideoLoaderError, AttributeError):
    """An object or module has no such name, or it cannot be set."""


class VideoLoaderWarning(UserWarning):
    """Base of all warnings of this library."""


class VideoWarning(VideoLoaderWarning, RuntimeWarning):
    """A video needs attention: for example, it is encrypted, HDR, or decoded on the CPU although there is a GPU."""


def no_method(instance: object, method: str) -> ConfigurationError:
    """The error for a required method that a user's class lacks.

    Args:
        instance: an instance of that class.
        method: the method's signature and result: ``"num_clips(self, video), which gives an integer"``.
    """
    return ConfigurationError(f"{type(instance).__name__} lacks a method: write {method}")


def wrong_result(instance: object, method: str, wanted: str, result: object) -> ConfigurationError:
    """The error for a wrong result of a user's method or function."""
    name = type(instance).__name__
    return ConfigurationError(f"{name}.{method} must give {wanted}, got {reprlib.repr(result)}")


def no_copy(loader: object) -> ArgumentError:
    """The error for a loader that is copied, pickled, or given to another process."""
    what = f"a {type(loader).__name__} has threads, so it can be neither copied nor pickled"
    return ArgumentError(f"{what}: make one in the process that uses it, and load_state_dict this one's state_dict()")


@contextmanager
def needs(what: str, source: str | None = None) -> Iterator[None]:
    """Turn an ImportError in the block into a ConfigurationError that says how to install an optional package.

    Args:
        what: the message: ``"needs Ray: pip install 'videoloader[ray]'"``.
        source: see ``VideoLoaderError``.

    Raises:
        ConfigurationError: the package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(what, source) from error


class enough_memory:
    """A block whose errors about lack of memory become NoMemoryError.

    Python, NumPy, PyTorch and the system each raise their own. Errors about GPU memory are left unchanged. (A class
    takes a third of the time of a generator, and each image passes three of these.)

    Args:
        what: the purpose of the memory, for the message.
        source: see ``VideoLoaderError``; it is added to a NoMemoryError in the block that names none.

    Raises:
        NoMemoryError: the block gets no memory.
    """

    __slots__ = ("_source", "_what")

    def __init__(self, what: str = "what is asked for", source: str | None = None) -> None:
        self._what, self._source = what, source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, NoMemoryError):
            if not error.source and self._source:
                raise NoMemoryError(error.message, self._source) from error.__cause__
        elif isinstance(error, MemoryError | OSError | OverflowError | RuntimeError | ValueError):
            if isinstance(error, VideoLoaderError) or not _lacks_memory(error):
                return
            told = "ask for fewer or smaller frames at once, or in smaller batches"
            told = f"there is not enough memory for {self._what}: {told} ({str(error) or type(error).__name__})"
            raise NoMemoryError(told, self._source) from error


def _lacks_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # Messages of Python, NumPy and PyTorch for sizes that overflow, and of PyTorch's CPU allocator.
    words = ("C ssize_t", "Maximum allowed", "array is too big", "calculation overflowed", "DefaultCPUAllocator")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def given(value: object) -> str:
    """A value for a message; arrays and tensors by type and shape."""
    return f"{value.dtype} of shape {tuple(value.shape)}" if getattr(value, "ndim", 0) else repr(value)  # type: ignore[attr-defined]


def shortened(value: Any) -> str:
    """A value shortened for a message: arrays by type and shape, other values as a short ``repr``."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return given(value) if getattr(value, "ndim", 0) else reprlib.repr(value)


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
    if (type(value) is not str and not isinstance(value, Hashable)) or value not in values:
        raise ConfigurationError(f"{name} must be one of {', '.join(map(str, values))}, got {given(value)}")


def check_integer(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    """Raise ConfigurationError unless an argument is an integer of at least ``low`` and at most ``high``."""
    whole = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
    if whole and low <= int(value) and (high is None or int(value) <= high):  # type: ignore[call-overload]
        return
    allowed = "a positive integer" if low == 1 else f"an integer of at least {low}"
    check(name, value, False, allowed if high is None else f"an integer in [{low}, {high}]")


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


def is_finite(value: object) -> bool:
    """Whether a value is a number, neither infinite nor NaN; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


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
        raise ConfigurationError(f"{name} must give True or False, got {reprlib.repr(given)}") from None


class ClassNumber(int):
    """A label in the hands of a user's condition. It warns where it is compared with a name: no number equals one."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and other:
            number = f"data.class_names.index({other!r}) is the number of a name"
            warn_user(f"a label is compared with {other!r}, but labels are numbers, and equal no text: {number}")
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


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
    for each in pair:
        check_integer(name, each)
    least, largest = (int(each) for each in pair)
    check(name, value, least <= largest, "(least, largest)")
    return least, largest


def printable(text: str) -> str:
    """A text that every terminal and file accepts: control characters, and bytes that are not UTF-8, are escaped."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return _STEERS_TERMINALS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def reason_of(error: Exception, path: str) -> str:
    """The message of an error, without the path that it begins with."""
    return str(error).removeprefix(f"{printable(path)}: ")


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def warn_user(message: str) -> None:
    """Warn at the line of the user's code that called this library."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "videoloader":
        frame, level = frame.f_back, level + 1
    warnings.warn(printable(message), VideoLoaderWarning, stacklevel=level)
