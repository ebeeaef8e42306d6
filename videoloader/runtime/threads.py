"""Executors whose threads the process keeps and lends out, or that call at once in the caller's thread.

A thread that ends leaves its part of the C library's heap fragmented, and memory would grow with each loader that is
made and dropped. So threads belong to the process and are lent to whoever has work for them. Only those end that nobody
has needed for a while: each keeps decoders, and much may have gone on at once when it began.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from videoloader.errors import ConfigurationError, VideoLoaderError
from videoloader.runtime.condition import Condition
from videoloader.runtime.forks import after_fork

P = ParamSpec("P")
T = TypeVar("T")


class Outcome(Future[T]):
    """A future that raises every error: Python's takes an error that is false, as with a length of 0, for none.

    No exception of a signal's handler leaves its lock locked.
    """

    def __init__(self) -> None:
        super().__init__()
        self._condition = Condition()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As of ``Future``."""
        if not self.done() and not waiter_of(self).acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise futures.TimeoutError
        return super().exception()

    def result(self, timeout: float | None = None) -> T:
        """As of ``Future``."""
        error = self.exception(timeout)
        try:
            if error is not None:
                raise error
            return super().result()
        finally:
            del self, error  # the error's traceback holds this frame


def waiter_of(future: Future[Any]) -> threading.Lock:
    """Return a lock that is free once the future is done. An event has one that a signal's handler may leave locked."""
    waiter = threading.Lock()
    waiter.acquire()
    future.add_done_callback(lambda _: waiter.release())
    return waiter


def wait_for_all(some: Iterable[Future[Any]]) -> None:
    """Wait until all futures are done, whatever comes out. A signal's handler may raise in it, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        wait(some)  # wakes up once; it takes all locks at once, which a handler might leave locked
        return
    for each in some:
        with suppress(CancelledError):
            each.exception()


class AtOnce(Executor):
    """An executor without threads: ``submit`` calls the function before it returns.

    Errors are put into the future, as with threads. Only what is not an ``Exception``, such as Ctrl-C, passes through.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function, and return a future that is done."""
        future: Future[T] = Outcome()
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            future.set_exception(error)
        else:  # an error that a signal's handler raises in set_result is the caller's
            future.set_result(result)
        try:
            return future
        finally:
            del future  # the error's traceback holds this frame, and the future holds the error


class LentThreads(Executor):
    """An executor whose calls are made by threads of the process, in the order of submission.

    Its queues have no locks that a Ctrl-C or a fork could leave locked. After shutdown other executors use its threads.

    Args:
        most: the largest number of threads that work at once, at least 1.
        name: start of the threads' names. A thread is lent only under its own name.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # One item for each further thread that may start to work.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(most):
            self._free.put(None)
        self._at_work: set[int] = set()
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call.

        Raises:
            RuntimeError: the executor has been shut down.
            ConfigurationError: the interpreter ends.
        """
        future: Future[T] = Outcome()
        self._waiting.put(partial(_call, future, partial(fn, *args, **kwargs)))
        if self._ended and future.cancel():  # checked last: shutdown makes calls already queued
            raise RuntimeError("cannot schedule new futures after shutdown")
        permit: list[None] = []
        try:
            with suppress(Empty):  # the threads at work will get to it
                permit.extend(self._one_free())
            if permit:
                _lend(self._name, self._work, permit)
        except BaseException:  # a Ctrl-C, or the interpreter ends
            with suppress(IndexError):  # a thread may have started nevertheless
                self._free.put(permit.pop())
            raise
        return future

    def works_now(self) -> bool:
        """Whether the current thread is one of those at work."""
        return threading.get_ident() in self._at_work

    def _one_free(self) -> Iterable[None]:
        """Take one item off the queue in one step, so that no Ctrl-C can come between taking and keeping it."""
        return islice(iter(self._free.get_nowait, self), 1)

    def _work(self) -> None:
        self._at_work.add(threading.get_ident())
        with suppress(Empty):
            while True:
                self._do_what_waits()
                self._free.put(None)
                if self._waiting.empty():
                    break
                self._free.get_nowait()  # a call has been queued since
        self._at_work.discard(threading.get_ident())

    def _do_what_waits(self) -> None:
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and wait until the accepted ones are done.

        Args:
            wait: whether to wait. A thread of this executor never waits for itself.
            cancel_futures: True is not supported.
        """
        assert not cancel_futures, "calls are cancelled by their tokens"
        begun, self._ended = self._ended, True
        if wait and not begun:
            for _ in range(self._most - self.works_now()):
                self._free.get()
            self._do_what_waits()


class _SafeLocks(ThreadPoolExecutor):
    """Python's own, with a lock that no exception of a signal's handler leaves locked."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, name)
        self._idle_semaphore._cond = Condition()  # type: ignore[attr-defined]


class _Threads(_SafeLocks):
    """Threads that the main thread lets another thread start.

    ``Thread.start`` waits for the new thread by a lock that it takes and returns in Python. If a signal's handler
    raises there, that thread may wait for the lock for ever, and the program does not end.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        submit = partial(super().submit, fn, *args, **kwargs)
        if len(self._threads) >= self._max_workers or threading.current_thread() is not threading.main_thread():
            return submit()
        submitted: Outcome[Future[T]] = Outcome()
        try:
            _starter.submit(_call, submitted, submit)
            return submitted.result()
        finally:
            submitted.cancel()


# The one thread that the main thread starts itself.
_starter = _SafeLocks(1, "videoloader-start")


def _renew_starter() -> None:
    global _starter
    _starter = _SafeLocks(1, "videoloader-start")


after_fork(_renew_starter)


class _OwnThreads(_Threads):
    """Threads of an executor. If the system starts no more, those that there are make the calls."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Outcome()
        try:
            super().submit(_call, future, partial(fn, *args, **kwargs))
        except RuntimeError as error:  # after the call was queued
            if self._shutdown and not _process_ends:
                raise
            if not self._threads or _process_ends:
                raise _none_starts(error) from error
        return future


def _call(future: Future[T], function: Callable[[], T]) -> None:
    """Call a function, and put the result or error into its future."""
    if future.set_running_or_notify_cancel():
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
            del future, function  # as in AtOnce
        else:
            future.set_result(result)


# The idle threads by name, each an executor of one thread and when it worked last; the latest comes last.
_idle: defaultdict[str, list[tuple[ThreadPoolExecutor, float]]] = defaultdict(list)
_SECONDS_IDLE = 60  # after which a thread ends
_process_ends = False
PROGRAM_ENDS = (
    "the main thread has ended, and with it all reading: let it wait for loops in other threads (thread.join())"
)


def _lend(name: str, work: Callable[[], object], permit: list[None]) -> None:
    """Lend a thread for some work, which it does unless the permit is taken back before it begins.

    The thread that worked last is lent first, so that no more threads are in use than are needed.

    Raises:
        ConfigurationError: the interpreter is shutting down.
        VideoLoaderError: the system cannot start another thread.
    """
    try:
        thread, _ = _idle[name].pop()
    except IndexError:
        thread = _Threads(1, name)
    try:
        thread.submit(_do, thread, name, work, permit)
    except RuntimeError as error:
        raise _none_starts(error) from error


def _none_starts(error: RuntimeError) -> VideoLoaderError:
    if _process_ends:
        return ConfigurationError(PROGRAM_ENDS)
    return VideoLoaderError(f"no thread can be started ({error}): num_workers=0 needs none")


def _do(thread: ThreadPoolExecutor, name: str, work: Callable[[], object], permit: list[None]) -> None:
    try:
        permit.pop()
    except IndexError:
        pass
    else:
        work()
    del work
    idle, now = _idle[name], time.monotonic()
    idle.append((thread, now))
    with suppress(IndexError):  # others may take them meanwhile
        if now - idle[0][1] > _SECONDS_IDLE:
            idle.pop(0)  # without its executor, a thread ends
    if _process_ends:
        _idle.clear()


def _end() -> None:
    # concurrent.futures does not know a thread whose start a Ctrl-C interrupted: such a thread ends only when nothing
    # refers to its executor.
    global _process_ends
    _process_ends = True
    _idle.clear()


threading._register_atexit(_end)  # type: ignore[attr-defined]
after_fork(_idle.clear)


def executor_of(threads: int, name: str, *, lent: bool = True) -> Executor:
    """An executor with so many threads; for 0, one that calls at once.

    Args:
        threads: number of threads, at least 0.
        name: start of the threads' names.
        lent: whether the threads belong to the process; otherwise they belong to the executor and end with it.
    """
    if not threads:
        return AtOnce()
    return LentThreads(threads, name) if lent else _OwnThreads(threads, name)


def works_now(executor: Executor | None) -> bool:
    """Whether the current thread does a call of this executor, so that it must not wait for other calls of it."""
    if isinstance(executor, ThreadPoolExecutor):
        return threading.current_thread() in executor._threads
    return isinstance(executor, LentThreads) and executor.works_now()
