"""``cached_property`` without a lock, as in Python 3.12."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """Computes an attribute when it is first read; two threads may both compute it.

        Until Python 3.11, one lock stands for the property of all objects. Threads wait for each other although they
        read different objects, and a process that is forked while a thread computes waits forever.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
