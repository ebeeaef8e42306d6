"""New starts in a forked process: threads do not come along, and a lock that one of them held is never let go."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from weakref import WeakKeyDictionary

# Of objects, the functions of their classes; in the order in which they were told.
_objects: WeakKeyDictionary[object, list[Callable[[object], object]]] = WeakKeyDictionary()
_functions: list[Callable[[], object]] = []


def after_fork(start: Callable[[], object]) -> None:
    """Have a function called in each forked process before anything else is done there.

    Args:
        start: must not wait for anything, and take no lock that another thread may have held. A bound method does not
            keep its object.
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
