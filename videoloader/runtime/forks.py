"""Run functions in forked processes, which have no threads, and whose locks may be held forever by lost threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from weakref import WeakKeyDictionary

# For each object, functions of its class, in the order of registration.
_objects: WeakKeyDictionary[object, list[Callable[[object], object]]] = WeakKeyDictionary()
_functions: list[Callable[[], object]] = []


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


def _start_all() -> None:
    for function in _functions:
        function()
    for each, methods in list(_objects.items()):
        for method in methods:
            method(each)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all)
