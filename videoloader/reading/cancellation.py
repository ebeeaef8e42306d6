"""Cancel work in other threads when its result is no longer wanted or when the interpreter exits."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # ends its threads at exit, too; see below
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from videoloader.errors import ConfigurationError
from videoloader.indexing.sources.patience import ReadCancelled as ReadCancelled
from videoloader.runtime.forks import keep_forever
from videoloader.runtime.threads import PROGRAM_ENDS

T = TypeVar("T")


_ANOTHER_LOOP = "another loop over this loader has begun, which ended this one: make a loader for each concurrent loop"


class CancelToken:
    """A flag that cancels work in other threads. The work checks it wherever it can safely stop.

    Args:
        in_own_thread: says whether the current thread is one of those that do the work; if so, it may not wait for it.
    """

    # ``cancel`` sets this on one object. It is a class attribute so that setting it on the class cancels all work at
    # once when the interpreter exits.
    cancelled = False
    _interpreter_exits = False
    _why = _ANOTHER_LOOP

    def __init__(self, in_own_thread: Callable[[], bool] = lambda: False) -> None:
        self._process, self.in_own_thread = os.getpid(), in_own_thread

    @property
    def threads_gone(self) -> bool:
        """Whether the threads that do the work no longer exist, so that nobody may wait for them.

        This is so while the interpreter exits, and in a process forked from the one that began the work.
        """
        return self._interpreter_exits or self._process != os.getpid()

    def raise_if_forked(self) -> None:
        """Raise ConfigurationError in a process that was forked from the one that began the work."""
        if self._process != os.getpid():
            raise ConfigurationError("this loop started before the process was forked: start a new one in this process")

    def leave_to_parent(self, what: object) -> None:
        """Keep what the work made from being freed in a forked process: CUDA cannot free what belongs to the parent."""
        if self.threads_gone and not self._interpreter_exits:
            keep_forever(what)

    def raise_if_ended(self) -> None:
        """Raise ConfigurationError if the work belongs to a loop that was ended from elsewhere."""
        if self._interpreter_exits:
            raise ConfigurationError(PROGRAM_ENDS)
        if self.cancelled and not self.threads_gone:
            raise ConfigurationError(self._why)

    def cancel(self, why: str = _ANOTHER_LOOP) -> None:
        """Cancel the work.

        Args:
            why: message for a loop that is continued afterwards, unless the work was cancelled before.
        """
        if not self.cancelled:
            self.cancelled, self._why = True, why

    def raise_if_cancelled(self) -> None:
        """Raise ReadCancelled if the work was cancelled."""
        if self.cancelled:
            raise ReadCancelled

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; once the work is cancelled, raise ReadCancelled in place of the next one."""
        for item in items:
            if self.cancelled:
                raise ReadCancelled
            yield item


def _cancel_all() -> None:
    CancelToken.cancelled = CancelToken._interpreter_exits = True


# At exit, concurrent.futures waits until its threads have done all queued work, which can take long, and ``atexit``
# functions run only after that. Functions registered here run before it, last registered first. The import above makes
# sure that concurrent.futures has registered its own first.
threading._register_atexit(_cancel_all)  # type: ignore[attr-defined]
