"""Executors whose threads the process keeps and lends out, or that call at once in the caller's thread.

A thread that ends leaves its part of the C library's heap fragmented, and memory would grow with each loader that is
made and dropped. So threads belong to the process and are lent to whoever has work for them. Only those end that nobody
has needed for a while: each keeps decoders, and much may have gone on at once when it began.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from videoloader.errors import ConfigurationError, VideoLoaderError
from videoloader.errors.of_handlers import raise_of_handler
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
    """An executor whose calls are made by idle threads, in the order of submission.

    Its queues have no locks that a Ctrl-C or a fork could leave locked, or that a signal's handler, which may use the
    library, could wait for.

    Args:
        most: the largest number of threads that work at once, at least 1.
        name: the threads' name.
        idle: the threads that it uses while they are idle, and to which they return; None for those of the process with
            this name, which other executors use, too.
        needed: whether calls are errors if no thread can be started; otherwise ``submit`` makes them.
    """

    def __init__(self, most: int, name: str, idle: _Idle | None = None, *, needed: bool = True) -> None:
        self._most, self._name, self._own, self._needed = most, name, idle, needed
        self._waiting: SimpleQueue[partial[None]] = SimpleQueue()  # of ``_call``
        # One item for each further thread that may start to work.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(most):
            self._free.put(None)
        self._at_work: set[int] = set()
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call. If the system starts no more threads, those at work make it.

        Raises:
            RuntimeError: the executor has been shut down.
            ConfigurationError: the interpreter ends.
            VideoLoaderError: no thread can be started, and none is at work.
        """
        future: Future[T] = Outcome()
        self._waiting.put(partial(_call, future, partial(fn, *args, **kwargs)))
        if self._ended and future.cancel():  # checked last: shutdown makes calls already queued
            raise _none_starts("") if _process_ends else RuntimeError("cannot schedule new futures after shutdown")
        if future in self._let_one_work() and (error := future.exception()):
            raise error
        return future

    def _let_one_work(self) -> list[Future[Any]]:
        """Lend a thread for what waits, and return the futures of calls that nobody makes, since none can be started.

        Calls of other threads rely on the permit while this thread has it.
        """
        permit: list[None] = []
        refused = None
        try:
            with suppress(Empty):  # the threads at work will get to it
                permit.extend(self._one_free())
            if permit:
                refused = _lend(_idle[self._name] if self._own is None else self._own, self._name, self._work, permit)
        except BaseException:  # a Ctrl-C
            self._take_back(permit)
            if self._waiting.qsize() > 1:  # not only the call of this thread
                self._let_one_work()
            raise
        if refused is None:
            return []
        self._take_back(permit)
        futures: list[Future[Any]] = []
        if not self._needed and not _process_ends:
            self._do_what_waits()
        # A thread gives its permit back before it looks for the last time whether a call waits.
        elif self._free.qsize() == self._most:
            with suppress(Empty):
                while True:
                    future = self._waiting.get_nowait().args[0]
                    if future.set_running_or_notify_cancel():
                        future.set_exception(_none_starts(refused))
                        futures.append(future)
        return futures

    def works_now(self) -> bool:
        """Whether the current thread is one of those at work."""
        return threading.get_ident() in self._at_work

    def _one_free(self) -> Iterable[None]:
        """Take one item off the queue in one step, so that no Ctrl-C can come between taking and keeping it."""
        return islice(iter(self._free.get_nowait, self), 1)

    def _take_back(self, permit: list[None]) -> None:
        with suppress(IndexError):  # a thread may have started nevertheless
            self._free.put(permit.pop())

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
        if self._own is not None:
            self._own.end()


class _Thread:
    """A thread that makes the calls of a queue, until nothing refers to this object any more.

    A ``ThreadPoolExecutor`` holds locks while it takes a call, for which a signal's handler that uses the library would
    wait for ever.

    Attributes:
        calls: the queue.
        refused: reason why the system did not start the thread; None if it did.
    """

    def __init__(self, name: str) -> None:
        self.calls: SimpleQueue[Any] = SimpleQueue()
        # The queue's method is the callback, since a handler could interrupt a function.
        work = partial(_make_calls, self.calls, weakref.ref(self, self.calls.put))
        self.refused = _refused_start(threading.Thread(target=work, name=name))


# The queues of all threads; whether they end.
_queues: set[SimpleQueue[Any]] = set()
_process_ends = False
_process = object()  # another one after a fork
PROGRAM_ENDS = (
    "the main thread has ended, and with it all reading: let it wait for loops in other threads (thread.join())"
)


def _make_calls(calls: SimpleQueue[Any], end: weakref.ref[_Thread]) -> None:
    _queues.add(calls)
    if _process_ends:
        calls.put(end)
    while (call := calls.get()) is not end and call is not None:
        call()
        del call
    _queues.discard(calls)


# The thread that starts others for the main thread, which starts it by itself, and its name.
_starter: list[_Thread] = []
_STARTER = "videoloader-start"


def _refused_start(thread: threading.Thread) -> str | None:
    """Start a thread, and return the reason if the system does not.

    ``Thread.start`` waits for the new thread by locks that it takes and returns in Python. If a signal's handler raises
    or starts a thread there, one may stay locked, and the program would not end. So the main thread lets another thread
    start it.
    """
    if threading.current_thread() is not threading.main_thread() or thread.name == _STARTER:
        try:
            thread.start()
        except RuntimeError as error:
            raise_of_handler(error)
            return str(error)
        return None
    if not _starter:
        first = _Thread(_STARTER)
        if first.refused is not None:
            return first.refused
        _starter.append(first)
    started: Outcome[str | None] = Outcome()
    _starter[-1].calls.put(partial(_call, started, partial(_refused_start, thread)))
    return started.result()


def _call(future: Future[T], function: Callable[[], T]) -> None:
    """Call a function, and put the result or error into its future.

    If the function has forked, the child ends here: what follows waits for threads of its parent.
    """
    process = _process
    if future.set_running_or_notify_cancel():
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
            del future, function  # as in AtOnce
        else:
            future.set_result(result)
    if process is not _process:
        print("videoloader: a process that is forked in a callback must end there, by os._exit", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)


class _Idle(list[tuple[_Thread, float]]):
    """Idle threads, and when each worked last; the latest comes last."""

    ended = False

    def end(self) -> None:
        """Let all end, those that still work when they have done so."""
        self.ended = True
        self.clear()


# Those of the process by name.
_idle: defaultdict[str, _Idle] = defaultdict(_Idle)
_SECONDS_IDLE = 60  # after which a thread ends


def _lend(idle: _Idle, name: str, work: Callable[[], object], permit: list[None]) -> str | None:
    """Lend a thread for some work, which it does unless the permit is taken back before it begins.

    The thread that worked last is lent first, so that no more threads are in use than are needed.

    Returns:
        The reason if no thread can be started; otherwise None.
    """
    if _process_ends:
        return PROGRAM_ENDS
    try:
        thread, _ = idle.pop()
    except IndexError:
        thread = _Thread(name)
        if thread.refused is not None:
            return thread.refused
    thread.calls.put(partial(_do, thread, idle, work, permit))
    # One that has ended by now has not taken the permit.
    return PROGRAM_ENDS if _process_ends and permit else None


def _none_starts(reason: str) -> VideoLoaderError:
    if _process_ends:
        return ConfigurationError(PROGRAM_ENDS)
    return VideoLoaderError(f"no thread can be started ({reason}): loaders with num_workers=0 need none")


def _do(thread: _Thread, idle: _Idle, work: Callable[[], object], permit: list[None]) -> None:
    try:
        permit.pop()
    except IndexError:
        pass
    else:
        work()
    del work
    now = time.monotonic()
    idle.append((thread, now))
    with suppress(IndexError):  # others may take them meanwhile
        if now - idle[0][1] > _SECONDS_IDLE:
            idle.pop(0)
    if idle.ended:
        idle.clear()


def _end() -> None:
    global _process_ends
    _process_ends = True
    for calls in list(_queues):
        calls.put(None)


def _begin_anew() -> None:
    global _process
    _process = object()
    for each in (_idle, _queues, _starter):
        each.clear()


threading._register_atexit(_end)  # type: ignore[attr-defined]
after_fork(_begin_anew)


def executor_of(threads: int, name: str, *, lent: bool = True, needed: bool = True) -> Executor:
    """An executor with so many threads; for 0, one that calls at once.

    Args:
        threads: number of threads, at least 0.
        name: name of the threads.
        lent: whether the threads belong to the process; otherwise they belong to the executor and end with it.
        needed: whether calls are errors if no thread can be started; otherwise ``submit`` makes them.
    """
    if not threads:
        return AtOnce()
    return LentThreads(threads, name, None if lent else _Idle(), needed=needed)


def works_now(executor: Executor | None) -> bool:
    """Whether the current thread does a call of this executor, so that it must not wait for other calls of it."""
    return isinstance(executor, LentThreads) and executor.works_now()
