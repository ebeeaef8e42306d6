"""The errors and warnings of this library.

Errors name the source and, where known, the frame or byte offset.
"""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from videoloader.errors.of_handlers import error_of_handler
from videoloader.errors.short_text import short_text

# Modules whose code is not a user's.
_NOT_THE_USERS = frozenset(
    (*sys.stdlib_module_names, "videoloader", "av", "fsspec", "lmdb", "numpy", "PIL", "pyarrow", "torch")
) - {"__main__"}
# The errors by which Python, NumPy, PyTorch and the system tell of a lack of memory.
# PyAV imports some of its modules when they are first needed.
_OF_MEMORY = (ImportError, MemoryError, OSError, OverflowError, RuntimeError, SystemError, ValueError)
# Lack of descriptors, in the process and in the system, and of processes or threads.
_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN)
# A longer message quotes what was given, of which its beginning and end are enough.
_LONGEST_MESSAGE = 10_000
# Control characters but those of white space, and those that turn the direction of writing.
_STEERS_TERMINALS = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class VideoLoaderError(Exception):
    """Base of all errors of this library.

    Args:
        message: str. The fault, in one sentence.
        source: str, default None. The path or name of the video that the error is about; it comes before the message.

    Attributes:
        message: str. As given.
        source: str or None. As given.
    """

    # What rows that are left out because of it are counted as.
    counted_as = "unreadable"

    def __init__(self, message: str, source: str | None = None) -> None:
        # An error that a signal's handler raised must reach whoever called the library, and never be told as another.
        if (handled := sys.exc_info()[1]) is not None and (raised := error_of_handler(handled)) is not None:
            raise raised
        text = f"{source}: {message}" if source else message
        half = _LONGEST_MESSAGE // 2
        super().__init__(text if len(text) <= _LONGEST_MESSAGE else f"{text[:half]} … {text[-half:]}")
        self.message = message
        self.source = source

    def __str__(self) -> str:
        text = Exception.__str__(self)
        # A DataLoader puts the traceback of its worker process into the message.
        return printable(
            text if text.startswith("Caught ") and "\nOriginal Traceback" in text else " ".join(text.split("\n"))
        )


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
        packet: int, default None. The number of the packet that caused it, where known.
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


class RowRangeError(VideoLoaderError, IndexError):
    """A row number lies outside the data set, or a mask of rows has another length."""


class NoMemoryError(VideoLoaderError, MemoryError):
    """The system lacks memory for the requested frames, or for what a file's headers claim."""


class ConfigurationError(VideoLoaderError, ValueError):
    """An argument has a value that cannot work. It is raised by the call that was given the argument."""


class ArgumentError(ConfigurationError, TypeError):
    """An argument has a wrong type, is missing, or has a name that does not exist."""


class MissingAttributeError(VideoLoaderError, AttributeError):
    """An object or module has no such name, or it cannot be set."""


class MissingColumnError(ConfigurationError, KeyError):
    """A row or a data set has no such column."""


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
    return ConfigurationError(f"{name}.{method} must give {wanted}, got {short_text(result)}")


def no_copy(loader: object) -> ArgumentError:
    """The error for a loader that is copied, pickled, or given to another process."""
    what = f"a {type(loader).__name__} has threads, so it can be neither copied nor pickled"
    return ArgumentError(f"{what}: make one in the process that uses it, and load_state_dict this one's state_dict()")


@contextmanager
def needs(what: str, source: str | None = None) -> Iterator[None]:
    """Turn an ImportError in the block into a ConfigurationError that says how to install an optional package.

    A lack of memory becomes a NoMemoryError.

    Args:
        what: the message: ``"needs Ray: pip install 'videoloader[ray]'"``.
        source: see ``VideoLoaderError``.

    Raises:
        ConfigurationError: the package is not installed.
        NoMemoryError: there is not enough memory for it.
    """
    try:
        yield
    except ImportError as error:
        raise what_the_system_lacks(error) or ConfigurationError(what, source) from error


class enough_memory:
    """A block whose errors about lack of memory become NoMemoryError.

    Python, NumPy, PyTorch and the system each raise their own. Errors about GPU memory are left unchanged. (A class
    takes a third of the time of a generator, and each image passes three of these.)

    Args:
        what: the purpose of the memory, for the message.
        advice: remedy, for the message.
        source: see ``VideoLoaderError``; it is added to a NoMemoryError in the block that names none.

    Raises:
        NoMemoryError: the block gets no memory.
    """

    __slots__ = ("_advice", "_source", "_what")

    def __init__(
        self,
        what: str = "what is asked for",
        source: str | None = None,
        advice: str = "ask for fewer or smaller frames at once, or in smaller batches",
    ) -> None:
        self._what, self._source, self._advice = what, source, advice

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, NoMemoryError):
            if not error.source and self._source:
                raise NoMemoryError(error.message, self._source) from error.__cause__
        elif isinstance(error, _OF_MEMORY):
            if isinstance(error, VideoLoaderError) or not _lacks_memory(error):
                return
            told = f"there is not enough memory for {self._what}: {self._advice} ({str(error) or type(error).__name__})"
            raise NoMemoryError(told, self._source) from error


def _lacks_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error)
    words = (
        # Messages of Python, NumPy and PyTorch for sizes that overflow, and of PyTorch's CPU allocator.
        "C ssize_t", "Maximum allowed", "array is too big", "calculation overflowed", "DefaultCPUAllocator",
        # Those of Python for functions in C that fail without saying why, as some do that get no memory.
        "without exception set", "without setting an exception",
    )  # fmt: skip
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def in_users_code(error: BaseException) -> bool:
    """Whether an error, caught in a function of the library, comes from a user's function that it called."""
    frames = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return any(name.partition(".")[0] not in _NOT_THE_USERS for name in frames)


def what_the_system_lacks(error: Exception) -> VideoLoaderError | None:
    """The error that says what the system refused; None for an error about anything else, or in a user's function.

    Args:
        error: an error that is not the library's own, caught in a function of the library.
    """
    if in_users_code(error):
        return None
    if isinstance(error, _OF_MEMORY) and _lacks_memory(error):
        return NoMemoryError(f"there is not enough memory for what is asked for ({str(error) or type(error).__name__})")
    if (isinstance(error, OSError) and error.errno in _LIMITS) or str(error) == "can't start new thread":
        return VideoLoaderError(f"the system refuses more: {system_reason(error)}. `ulimit -a` shows its limits")
    return None


def printable(text: str) -> str:
    """A text that every terminal and file accepts.

    Control characters, those that turn the direction of writing, and bytes that are not UTF-8 are escaped.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    return _STEERS_TERMINALS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def reason_of(error: Exception, path: str) -> str:
    """The message of an error, without the path that it begins with."""
    return str(error).removeprefix(f"{printable(path)}: ")


def system_reason(error: Exception) -> str:
    """The system's words on a file, without number and path. A name that no file can have is a ValueError."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``, ``2 batches``."""
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun if number == 1 else noun + ending}"


def warn_user(message: str) -> None:
    """Warn at the line of the user's code that called this library."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "videoloader":
        frame, level = frame.f_back, level + 1
    warnings.warn(printable(message), VideoLoaderWarning, stacklevel=level)
