"""Tells errors that a handler of a signal raised from those of the code that it interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import CO_VARARGS, getattr_static
from itertools import pairwise
from traceback import walk_tb
from types import CodeType, FrameType

# Where a handler's error is dealt with before this library's user sees it. Locks that it leaves in an odd state cause
# another error in Python's threads.
_OURS = ("videoloader", "threading", "concurrent")
_SIGNALS = signal.valid_signals()
# Errors that arose from one another. A program may have made a circle of them.
_LONGEST_CHAIN = 20


def error_of_handler(error: BaseException) -> BaseException | None:
    """Return the error that a handler of a signal raised, if it is what a function of this library handles now.

    An error of the same kind that the system raised has no frame of a handler. Errors that a user's own code handles
    are none of this library's business.

    Args:
        error: the error that is handled now, or that has arisen from a handler's.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run in no other
        return None
    found: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if found is None:
            break
        frames = [frame for frame, _ in walk_tb(found.__traceback__)]
        if not frames or _package_of(frames[0]) not in _OURS:  # the first one is that of the function that handles it
            return None
        if not _codes_of_handlers().isdisjoint(frame.f_code for frame in frames):
            return found
        if any(_was_called_as_handler(frame, before) for before, frame in pairwise(frames)):
            return found
        found = found.__context__
    return None


def is_of_handler(error: BaseException) -> bool:
    """Whether a handler of a signal raised an error that is handled now; ``KeyboardInterrupt`` is of Python's own."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and (isinstance(error, KeyboardInterrupt) or error_of_handler(error) is not None)


def raise_of_handler(error: BaseException) -> None:
    """Raise an error again if a handler of a signal raised it: the function that handles it is not meant."""
    if error_of_handler(error) is not None:
        raise error


def _was_called_as_handler(frame: FrameType, before: FrameType) -> bool:
    """Whether a frame has the arguments of a handler: a number, and the frame that it interrupts.

    A handler may have set another one in its place before it raised.
    """
    code = frame.f_code
    count, rest = code.co_argcount, bool(code.co_flags & CO_VARARGS)
    if count < 2 and not rest:
        return False
    values = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
    if rest:
        more = frame.f_locals.get(code.co_varnames[count + code.co_kwonlyargcount])
        values += more if isinstance(more, tuple) else ()
    return any(isinstance(number, int) and value is before for number, value in pairwise(values))


def _codes_of_handlers() -> set[CodeType | None]:
    return {_code_of(handler) for handler in map(signal.getsignal, _SIGNALS) if callable(handler)}


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _code_of(handler: object) -> CodeType | None:
    """Return the code of a function or method, perhaps with arguments given, or of an object that can be called."""
    while isinstance(handler, partial):
        handler = handler.func
    for function in (handler, getattr_static(type(handler), "__call__", None)):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


@contextmanager
def errors_suppressed(*kinds: type[Exception]) -> Iterator[None]:
    """Suppress errors of some kinds, by default of all, but not those that a handler of a signal raises."""
    suppressed = kinds or (Exception,)
    try:
        yield
    except suppressed as error:
        raise_of_handler(error)
