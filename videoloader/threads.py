"""Threads for some work, or none: then whoever asks for it does it, where a debugger can follow."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

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


def executor_of(threads: int, name: str) -> Executor:
    """An executor with so many threads, or for 0 one that works at once.

    Args:
        threads: at least 0.
        name: what the names of the threads begin with.
    """
    return ThreadPoolExecutor(threads, name) if threads else AtOnce()
