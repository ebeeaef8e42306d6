"""Retry requests to servers within limits, and end waits when their result is no longer wanted."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple, TypeVar

from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_integer, check_numbers
from videoloader.runtime.threads import waiter_of

T = TypeVar("T")

# Number of retries, and seconds. They come from the environment, so that all processes of a program have the same.
_RETRIES, _TIMEOUT = ("VIDEOLOADER_RETRIES", 4), ("VIDEOLOADER_TIMEOUT", 60.0)
# Bytes per second. A slower transfer fails when its time is up.
_SLOWEST = 64 << 10
# Seconds before the second try, doubled before each further one, up to the maximum.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
# Seconds between checks whether a wait is still wanted.
_LOOK = 0.05


class ReadCancelled(Exception):
    """Raised in a thread whose work was cancelled. Whoever cancelled it does not need the result."""


class BusyError(OSError):
    """A server cannot answer now, but may be able to soon.

    Args:
        message: the server's message.
        seconds: seconds that it asks to wait.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class GaveUpError(OSError):
    """There is no usable answer. The message says why, and who was asked for what, how often and for how long."""


class Patience(NamedTuple):
    """The number of tries for a request, and the time for them.

    Attributes:
        retries: number of tries after the first, if tries fail for a temporary reason.
        timeout: seconds for all tries of one read, plus one for each 64 KiB that it requests.
    """

    retries: int
    timeout: float

    @property
    def silence(self) -> float:
        """Seconds without a byte after which a try fails. That leaves time for another one."""
        return self.timeout / 2

    def seconds(self, size: int) -> float:
        """Return the seconds that a read of this many bytes may take."""
        return self.timeout + size / _SLOWEST


def patience(retries: int | None = None, timeout: float | None = None) -> Patience:
    """Return the given limits, with those of the environment in place of None, or else 4 retries and 60 seconds.

    Raises:
        ConfigurationError: the values are no such numbers.
    """
    retries = _of_environment(int, *_RETRIES) if retries is None else retries
    timeout = _of_environment(float, *_TIMEOUT) if timeout is None else timeout
    check_integer("retries", retries, 0)
    check_numbers("timeout", timeout, None, "a positive number of seconds", lambda seconds: seconds > 0)
    return Patience(int(retries), float(timeout))


def _of_environment(kind: type[T], name: str, default: T) -> T:
    text = os.environ.get(name)
    try:
        return default if text is None else kind(text)  # type: ignore[call-arg]
    except ValueError:
        raise ConfigurationError(f"the environment variable {name} must be a number, got {text!r}") from None


async def ask(
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    until: float,
    *,
    passes: Callable[[Exception], bool],
    why: Callable[[Exception], str],
    whom: str,
    what: str,
) -> T:
    """Return the answer to a request, which is repeated after a pause if it fails for a temporary reason.

    Pauses are random, so that many clients turned away at the same time do not come back at the same time.

    Args:
        attempt: makes one request.
        patience: number of tries.
        until: end of all tries, in the time of ``time.monotonic``.
        passes: whether another try is worthwhile after an error. After a ``BusyError`` it always is.
        why: describes an error.
        whom, what: names of the server and of what is requested, for the message.

    Raises:
        GaveUpError: a failure was permanent, or the tries or the time are used up.
        FileNotFoundError, EOFError: ``attempt`` raised it.
    """
    begin, pause = time.monotonic(), _FIRST_PAUSE
    for tries in count(1):
        try:
            return await asyncio.wait_for(attempt(), max(until - time.monotonic(), 0))
        except (FileNotFoundError, EOFError):
            raise
        except Exception as error:
            now, busy = time.monotonic(), error.seconds if isinstance(error, BusyError) else None
            seconds = (busy or 0) + pause * random.uniform(0.5, 1)
            if tries > patience.retries or now + seconds >= until or not (busy is not None or passes(error)):
                times = "once" if tries == 1 else f"{tries} times"
                rest = f", and asks for {busy:.0f} s of rest" if busy else ""
                asked = f"asked {whom} {times} in {now - begin:.1f} s for {what}"
                raise GaveUpError(f"{why(error)}{rest}; {asked}") from error
        await asyncio.sleep(seconds)
        pause = min(2 * pause, _LONGEST_PAUSE)
    raise AssertionError("there is always a next try")


def wait_for(future: Future[T], works: Callable[[], bool] = lambda: True) -> T:
    """Return the result of another thread.

    Args:
        future: the result.
        works: whether that thread still works.

    Raises:
        ReadCancelled: the calling thread's work was cancelled meanwhile; see ``cancellable``.
        RuntimeError: the other thread does not work any more.
    """
    waiter = waiter_of(future)
    while not waiter.acquire(timeout=_LOOK):
        raise_if_cancelled()
        if not works() and not future.done():
            raise RuntimeError("the event loop has ended, by SystemExit or the like in an asynchronous file system")
    return future.result()


def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine in the loop of another thread; cancel it if nobody waits for it any more.

    Raises:
        ReadCancelled, RuntimeError: see ``wait_for``.
    """
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return wait_for(future, loop.is_running)
    finally:
        future.cancel()


_work = threading.local()


@contextmanager
def cancellable(raise_if_cancelled: Callable[[], None]) -> Iterator[None]:
    """Let the calling thread's waits end when its work is cancelled.

    Args:
        raise_if_cancelled: function that raises ReadCancelled once the work is cancelled.
    """
    before = getattr(_work, "check", None)
    _work.check = raise_if_cancelled
    try:
        yield
    finally:
        _work.check = before


def raise_if_cancelled() -> None:
    """Raise ReadCancelled if the calling thread's work was cancelled."""
    if check := getattr(_work, "check", None):
        check()
