"""Objects that another process of this library can be told: of its own classes alone, not of a program's."""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any

_PACKAGES = ("videoloader", "numpy")
_MODULES = ("builtins", "collections", "copyreg", "fractions", "functools", "operator", "torch")


def is_own(given: object) -> bool:
    """Whether a process that runs nothing of a program can be told this.

    Examples:
        >>> is_own({"boxes": [(0, 0, 8, 8)]}), is_own(lambda clip: clip.label)
        (True, False)
    """
    try:
        _OwnPickler(io.BytesIO()).dump(given)
    except Exception:  # a program's own way of pickling may raise anything
        return False
    return True


class _OwnPickler(pickle.Pickler):
    """Raises PicklingError for a class or function of a program."""

    def reducer_override(self, given: Any) -> Any:
        if isinstance(given, type | FunctionType):
            module: str = given.__module__
            if module.partition(".")[0] not in _PACKAGES and module not in _MODULES:
                raise pickle.PicklingError(f"{given} is a program's own")
        return NotImplemented


def contents(given: object) -> bytes:
    """Something that is equal for objects of equal contents; all functions and modules are alike.

    Raises:
        Exception: a program's own object cannot be pickled.
    """
    written = io.BytesIO()
    _Contents(written).dump(given)
    return written.getvalue()


class _Contents(pickle.Pickler):
    def persistent_id(self, given: object) -> str | None:
        return "function" if callable(given) and not isinstance(given, type) else None
