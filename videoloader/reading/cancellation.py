"""Work in other threads is cancelled when nobody waits for it any more, and when the interpreter ends."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # ends its threads at exit, too; see below
import os
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

from videoloader.errors import ConfigurationError
from videoloader.indexing.sources.patience import ReadCancelled as ReadCancelled

T = TypeVar("T")


_ANOTHER_LOOP = "another loop over this loader has begun: a loader has one at a time, so make one for each loop"


class CancelToken:
    """A flag that cancels work in other threads. The work checks it wherever it can end without harm."""

    # On the class, so that setting it there cancels all work at once when the interpreter exits. ``cancel`` sets it on
    # one object.
    cancelled = False
    _interpreter_exits = False
    _why = _ANOTHER_LOOP

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def threads_gone(self) -> bool:
        """Whether the threads of the work are gone, so that nobody may wait for them.

        This is so while the interpreter exits, and in a process forked from the one that began the work.
        """
        return self._interpreter_exits or self._process != os.getpid()

    def raise_if_forked(self) -> None:
        """Raise ConfigurationError in a process that was forked from that of the work."""
        if self._process != os.getpid():
            raise ConfigurationError("this loop was begun before the process was forked: begin another one here")

    def raise_if_ended(self) -> None:
        """Raise ConfigurationError if the work was that of a loop, which was ended from elsewhere."""
        if self.cancelled and not self.threads_gone:
            raise ConfigurationError(self._why)

    def cancel(self, why: str = _ANOTHER_LOOP) -> None:
        """Cancel the work.

        Args:
            why: told to a loop that is continued, unless it was cancelled before.
        """
        if not self.cancelled:
            self.cancelled, self._why = True, why

    def raise_if_cancelled(self) -> None:
        """Raise ReadCancelled if the work was cancelled."""
        if self.cancelled:
            raise ReadCancelled

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """The same items, but ReadCancelled in place of the next one once the work was cancelled."""
        for item in items:
            if self.cancelled:
                raise ReadCancelled
            yield item


def _cancel_all() -> None:
    CancelToken.cancelled = CancelToken._interpreter_exits = True


# At exit concurrent.futures waits until its threads have done all queued work, which can take long. Functions of
# ``atexit`` run only after that. Those registered here run before it, the last registered first: hence the import
# above.
threading._register_atexit(_cancel_all)  # type: ignore[attr-defined]
