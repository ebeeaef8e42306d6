"""Keep forked processes sound: they have no threads, and locks that lost threads held stay locked forever."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import MethodType
from weakref import WeakKeyDictionary

# For each object, functions of its class, in the order of registration.
_objects: WeakKeyDictionary[object, list[Callable[[object], object]]] = WeakKeyDictionary()
_functions: list[Callable[[], object]] = []
# Seconds for which a fork waits for others' calls. A statement of a user may take longer.
_PATIENCE = 60


def after_fork(start: Callable[[], object]) -> None:
    """Register a function to be called first in each forked process.

    Args:
        start: function that waits for nothing, and takes no lock that another thread may have held. A bound method does
            not keep its object alive.
    """
    if isinstance(start, MethodType):
        _objects.setdefault(start.__self__, []).append(start.__func__)
    else:
        _functions.append(start)


class _NoForks(threading.local):
    """``with no_forks:`` holds back forks of this process in other threads until the block ends.

    It is for calls of libraries whose own locks a forked process cannot replace. The blocks are short, and may contain
    each other.
    """

    depth = 0  # of the blocks that this thread is in

    def __enter__(self) -> None:
        global _threads_inside
        with _changed:
            # A thread that is inside already must be able to end.
            while _forking and not self.depth:
                _changed.wait()
            _threads_inside += not self.depth
            self.depth += 1

    def __exit__(self, *_: object) -> None:
        global _threads_inside
        with _changed:
            self.depth -= 1
            _threads_inside -= not self.depth
            _changed.notify_all()


no_forks = _NoForks()
_changed = threading.Condition()
_threads_inside = _forking = 0


def _before_fork() -> None:
    global _forking
    own = int(no_forks.depth > 0)
    no_forks.depth += 1  # a finalizer that this thread runs meanwhile must not wait
    _changed.acquire()
    _forking += 1
    _changed.wait_for(lambda: _threads_inside == own, _PATIENCE)


def _after_fork_in_parent() -> None:
    global _forking
    _forking -= 1
    no_forks.depth -= 1
    _changed.notify_all()
    _changed.release()


def _start_all() -> None:
    global _changed, _threads_inside, _forking
    no_forks.depth -= 1
    _changed, _threads_inside, _forking = threading.Condition(), int(no_forks.depth > 0), 0
    for function in _functions:
        function()
    for each, methods in list(_objects.items()):
        for method in methods:
            method(each)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_start_all)
