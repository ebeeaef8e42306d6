"""A condition whose lock is never left locked by an exception that a signal's handler raises, such as Ctrl-C.

Python runs such handlers between the instructions of the main thread. Its own condition takes and returns its lock in
methods that are written in Python, so a handler may raise when the lock is taken and the ``with`` statement does not
know that yet, or when it is to be returned: all other threads would wait for ever.
"""

from __future__ import annotations

import threading
from typing import Any


class Condition(threading.Condition):
    """As Python's, for ``with`` statements. A handler that raises while ``wait`` is under way may still do harm."""

    # The lock's own methods, which are written in C: for a ``with`` statement, each of them is one step.
    __enter__ = property(lambda self: self._lock.__enter__)
    __exit__ = property(lambda self: self._lock.__exit__)
    _lock: Any
