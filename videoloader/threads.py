"""Threads for some work, or none: then whoever asks for it does it, where a debugger can follow.

A thread that ends leaves its part of the C library's heap in pieces, and what those hold grows with each loader that is
made and dropped. So threads are kept: they belong to the process, and are lent to whoever has work for them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

from videoloader.errors import VideoLoaderError
from videoloader.indexing.forks import after_fork

P = ParamSpec("P")
T = TypeVar("T")


class AtOnce(Executor):
    """An executor without threads: a call is over when ``submit`` returns.

    Errors are the future's, as with threads. What is no ``Exception``, such as a Ctrl-C, passes through.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function, and give a future that is done."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        try:
            return future
        finally:
            del future  # the error's traceback holds this frame, and the future holds the error


class LentThreads(Executor):
    """An executor whose calls are done by threads of the process, in the order in which they came.

    Its queues have no locks that a Ctrl-C or a fork could leave taken. Once it is shut down, others have its threads.

    Args:
        most: the largest number of threads that work at once, at least 1.
        name: start of the threads' names. Threads of one name are lent again.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # An item for each thread that may begin to work.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(most):
            self._free.put(None)
        self._at_work: set[int] = set()
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called.

        Raises:
            RuntimeError: the executor has been shut down, or the interpreter ends.
        """
        future: Future[T] = Future()
        self._waiting.put(partial(_call, future, partial(fn, *args, **kwargs)))
        if self._ended and future.cancel():  # asked now, since whoever ends it does what was waiting before
            raise RuntimeError("cannot schedule new futures after shutdown")
        permit: list[None] = []
        try:
            with suppress(Empty):  # those that work will come to it
                permit.extend(self._one_free())
            if permit:
                _lend(self._name, self._work, permit)
        except BaseException:  # a Ctrl-C, or the interpreter ends
            with suppress(IndexError):  # where a thread has begun nevertheless
                self._free.put(permit.pop())
            raise
        return future

    def _one_free(self) -> Iterable[None]:
        """One item off the queue. It changes hands in one step, between whose halves no Ctrl-C comes."""
        return islice(iter(self._free.get_nowait, self), 1)

    def _work(self) -> None:
        self._at_work.add(threading.get_ident())
        with suppress(Empty):
            while True:
                self._do_what_waits()
                self._free.put(None)
                if self._waiting.empty():
                    break
                self._free.get_nowait()  # something has come since
        self._at_work.discard(threading.get_ident())

    def _do_what_waits(self) -> None:
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and wait until those that were taken are done.

        Args:
            wait: False does not wait. A thread of its own does not wait for itself in any case.
            cancel_futures: True is not supported.
        """
        assert not cancel_futures, "calls are cancelled by their tokens"
        begun, self._ended = self._ended, True
        if wait and not begun:
            for _ in range(self._most - (threading.get_ident() in self._at_work)):
                self._free.get()
            self._do_what_waits()


def _call(future: Future[T], function: Callable[[], T]) -> None:
    """Call a function, and tell its future."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
            del future, function  # as in AtOnce


# The threads of each name that have nothing to do, each as an executor of its own; those that worked last come last.
_idle: defaultdict[str, list[ThreadPoolExecutor]] = defaultdict(list)
_process_ends = False


def _lend(name: str, work: Callable[[], object], permit: list[None]) -> None:
    """Have a thread do some work, unless somebody takes the permit before it begins.

    The thread that worked last is lent first, so that no more are in use than are needed.

    Raises:
        RuntimeError: the interpreter ends.
        VideoLoaderError: the system starts no more threads.
    """
    try:
        thread = _idle[name].pop()
    except IndexError:
        thread = ThreadPoolExecutor(1, name)
    try:
        thread.submit(_do, thread, name, work, permit)
    except RuntimeError as error:
        if _process_ends:
            raise
        raise VideoLoaderError(f"no thread can be started ({error}): num_workers=0 needs none") from error


def _do(thread: ThreadPoolExecutor, name: str, work: Callable[[], object], permit: list[None]) -> None:
    try:
        permit.pop()
    except IndexError:
        pass
    else:
        work()
    del work
    _idle[name].append(thread)
    if _process_ends:
        _idle.clear()


def _end() -> None:
    # One whose start a Ctrl-C interrupted is not known to concurrent.futures: it ends only where nobody has it.
    global _process_ends
    _process_ends = True
    _idle.clear()


threading._register_atexit(_end)  # type: ignore[attr-defined]
after_fork(_idle.clear)


def executor_of(threads: int, name: str, *, lent: bool = True) -> Executor:
    """An executor with so many threads, or for 0 one that works at once.

    Args:
        threads: number of threads, at least 0.
        name: start of the threads' names.
        lent: whether they belong to the process, or to the executor and end with it.
    """
    if not threads:
        return AtOnce()
    return LentThreads(threads, name) if lent else ThreadPoolExecutor(threads, name)
