"""Keep forked processes sound: they have no threads, and locks that lost threads held stay locked forever."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - see the end of this module
import ctypes
import logging  # noqa: F401
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import _bootstrap
from types import MethodType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Lock = TypeVar("Lock", bound=Any)

# For each object, functions of its class, in the order of registration.
_objects: WeakKeyDictionary[object, list[Callable[[object], object]]] = WeakKeyDictionary()
_functions: list[Callable[[], object]] = []
# Seconds for which a fork waits for others' blocks. A statement of a user may take longer.
_PATIENCE = 60


def after_fork(start: Callable[[], object]) -> None:
    """Register a function to be called first in each forked process.

    Args:
        start: function that waits for nothing, and takes no lock that another thread may have held. A bound method does
            not keep its object alive. What the object held at the fork is never freed in the child: it may have threads
            of the parent's, or memory of a GPU.
    """
    if isinstance(start, MethodType):
        _objects.setdefault(start.__self__, []).append(start.__func__)
    else:
        _functions.append(start)


def free_after_fork(lock: Lock) -> Lock:
    """Return the lock, which is free at the begin of each forked process: a thread of the parent may hold it.

    Args:
        lock: a ``threading.Lock`` or ``threading.RLock`` that lasts as long as the process.
    """
    after_fork(lock._at_fork_reinit)  # as ``threading`` and ``logging`` do with theirs
    return lock


def lead_nowhere(descriptor: int) -> None:
    """Replace a descriptor of the parent's in a forked process. Unlike a closed one, it will name no other file."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)


# The default arguments are there when the interpreter ends and the names of modules are cleared.
def keep_forever(
    what: object,
    incref: Callable[[object], None] = ctypes.pythonapi.Py_IncRef,
    as_object: Callable[[object], object] = ctypes.py_object,
) -> None:
    """Make sure that an object is never freed, not even when the interpreter ends.

    It is for objects that belong to the process from which this one was forked.
    """
    incref(as_object(what))


# For the number of each thread that ever was in a block, the lock that it holds there.
_lock_of: dict[int, threading.RLock] = {}
_registering = threading.RLock()


def no_forks() -> threading.RLock:
    """The context of a block during which no other thread forks this process.

    It is for calls of libraries whose own locks a forked process cannot replace. A fork waits for the blocks of other
    threads, for up to a minute. Blocks may contain each other, and a thread may fork in a block of its own.
    """
    # A lock enters and leaves the block in one step, which no signal's handler interrupts.
    return _lock_of.get(threading.get_ident()) or _new_lock()


def _new_lock() -> threading.RLock:
    with _registering:
        return _lock_of.setdefault(threading.get_ident(), threading.RLock())


def _before_fork() -> None:
    patient_until = time.monotonic() + _PATIENCE
    # Python's own locks of modules stay locked in the child, too.
    while _others_import() and time.monotonic() < patient_until:
        time.sleep(0.001)
    _registering.acquire(timeout=_PATIENCE)  # from now on, threads that were in no block before cannot begin one
    for lock in _locks_of_others():
        lock.acquire(timeout=max(patient_until - time.monotonic(), 0))


def _others_import() -> bool:
    """Whether another thread is importing modules of this library, and so holds their locks."""
    locks: dict[str, Callable[[], Any]] = getattr(_bootstrap, "_module_locks", {})
    held = (locked() for name, locked in list(locks.items()) if name.partition(".")[0] == "videoloader")
    return any(getattr(lock, "owner", None) not in (None, threading.get_ident()) for lock in held)


def _release() -> None:
    for lock in (*_locks_of_others(), _registering):
        with suppress(RuntimeError):  # it was not acquired
            lock.release()


def _locks_of_others() -> list[threading.RLock]:
    own = threading.get_ident()
    return [lock for thread, lock in list(_lock_of.items()) if thread != own]


def _start_all() -> None:
    global _registering
    _registering = threading.RLock()
    for thread in _lock_of.keys() - {threading.get_ident()}:
        del _lock_of[thread]
    for function in _functions:
        function()
    for each, methods in list(_objects.items()):
        keep_forever(vars(each).copy())
        for method in methods:
            method(each)


# Functions that were registered last are called first. ``logging`` and ``concurrent.futures`` register functions that
# take their locks, which an import in another thread may wait for while a fork waits for that import.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_start_all)
    # An exception of a signal's handler ends only the call that it falls into, and threads must not wait forever.
    for _ in range(3):
        os.register_at_fork(after_in_parent=_release)
