"""Work in other threads that is called off: because nobody waits for it any more, or because the interpreter ends."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # ends its threads at exit, too; see below
import os
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

from videoloader.errors import ConfigurationError

T = TypeVar("T")


class StoppedError(Exception):
    """Raised in a thread whose work was called off. Whoever called it off does not ask for the result."""


class Stop:
    """Whether some work was called off. It looks here by itself, wherever ending does no harm."""

    # An attribute of the class until the work is called off: at the interpreter's exit all work is, at once.
    called = False
    _interpreter_exits = False

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def exiting(self) -> bool:
        """Whether the work's threads are gone: a loop that is left only now has nothing to wait for.

        At the interpreter's exit, which also finds modules emptied, and in a process that was forked from the work's.
        """
        return self._interpreter_exits or self._process != os.getpid()

    def check_process(self) -> None:
        """Raise ConfigurationError in a process that was forked from that of the work."""
        if self._process != os.getpid():
            raise ConfigurationError("this loop was begun before the process was forked: begin another one here")

    def call(self) -> None:
        """Call the work off."""
        self.called = True

    def check(self) -> None:
        """Raise StoppedError if the work was called off."""
        if self.called:
            raise StoppedError

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """The same items, but StoppedError in place of the next one once the work was called off."""
        for item in items:
            self.check()
            yield item


def _stop_all() -> None:
    Stop.called = Stop._interpreter_exits = True


# Pools of threads do all that was asked of them before the interpreter ends: with batches under way that can take long.
# What ``atexit`` calls comes after that. These calls come before it, the youngest first.
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
