"""Patience with servers: how long and how often one is asked; waits end when nobody wants the answer any more."""

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

from videoloader.errors import ConfigurationError, check_integer, check_numbers

T = TypeVar("T")

# Tries after the first, and seconds; in the environment, so that every process of a program has the same.
_RETRIES, _TIMEOUT = ("VIDEOLOADER_RETRIES", 4), ("VIDEOLOADER_TIMEOUT", 60.0)
# Bytes a second. What is slower than this ends when the time is up.
_SLOWEST = 64 << 10
# Seconds before the second try, doubled before each further one, at most the last.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
# Seconds between two looks whether a wait is still wanted.
_LOOK = 0.05


class ReadCancelled(Exception):
    """Raised in a thread whose work was cancelled. Whoever cancelled it does not ask for the result."""


class BusyError(OSError):
    """A server that cannot answer now, but may soon.

    Args:
        message: words of the server.
        seconds: seconds for which it wants to be left alone.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class GaveUpError(OSError):
    """No answer that can be used; the text says why, and who was asked for what, how often and for how long."""


class Patience(NamedTuple):
    """The number of times that something is asked for, and for how long.

    Attributes:
        retries: tries after the first that failed in passing.
        timeout: seconds for all tries of one read, and one more for each 64 KiB that it asks for.
    """

    retries: int
    timeout: float

    @property
    def silence(self) -> float:
        """Seconds without a byte after which a try has failed: then there is time for another one."""
        return self.timeout / 2

    def seconds(self, size: int) -> float:
        """The time that a read of that many bytes may take."""
        return self.timeout + size / _SLOWEST


def patience(retries: int | None = None, timeout: float | None = None) -> Patience:
    """The given patience; in place of None what the environment says, or else 4 retries and 60 seconds.

    Raises:
        ConfigurationError: they are no such numbers.
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
    """The answer to a question that is asked again, after a pause, where it failed for a reason that passes.

    Pauses are drawn at random, so that many who were sent away at once do not come back at once.

    Args:
        attempt: asks once.
        patience: the number of tries.
        until: end of all tries, as ``time.monotonic`` counts.
        passes: whether an error may be another one, or none, at the next try. ``BusyError`` always passes.
        why: an error in words.
        whom, what: words for the message: who is asked, and for what.

    Raises:
        GaveUpError: it failed for good, or the tries or the time are used up.
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


def wait_for(future: Future[T]) -> T:
    """The result of another thread.

    Raises:
        ReadCancelled: the calling thread's work was cancelled meanwhile; see ``cancellable``.
    """
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    while not done.wait(_LOOK):
        raise_if_cancelled()
    return future.result()


def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine in the loop of another thread. It is cancelled where nobody waits for it any more.

    Raises:
        ReadCancelled: see ``wait_for``.
    """
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return wait_for(future)
    finally:
        future.cancel()


_work = threading.local()


@contextmanager
def cancellable(raise_if_cancelled: Callable[[], None]) -> Iterator[None]:
    """Let the calling thread's waits end when its work is cancelled.

    Args:
        raise_if_cancelled: raises ReadCancelled then.
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
