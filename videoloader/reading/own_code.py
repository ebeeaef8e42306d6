"""Check whether objects can be sent to a library process, which does not import the user's own code."""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any

from videoloader.errors.of_handlers import error_of_handler

_PACKAGES = ("videoloader", "numpy")
_MODULES = ("builtins", "collections", "copyreg", "fractions", "functools", "operator", "torch")


def is_own(given: object) -> bool:
    """Whether an object can be unpickled in a process that has none of the user's own code.

    Examples:
        >>> is_own({"boxes": [(0, 0, 8, 8)]}), is_own(lambda clip: clip.label)
        (True, False)
    """
    try:
        _OwnPickler(io.BytesIO()).dump(given)
    except Exception as error:  # pickling code of the user's own classes may raise anything
        if error_of_handler(error):
            raise
        return False
    return True


class _OwnPickler(pickle.Pickler):
    """Raises PicklingError for a class or function of the user's own code."""

    def reducer_override(self, given: Any) -> Any:
        if isinstance(given, type | FunctionType):
            module: str = given.__module__
            if module.partition(".")[0] not in _PACKAGES and module not in _MODULES:
                raise pickle.PicklingError(f"{given} is a program's own")
        return NotImplemented


def contents(given: object) -> bytes:
    """Return bytes that are equal for objects with equal contents. All functions and modules count as equal.

    Raises:
        Exception: an object of the user's own classes cannot be pickled.
    """
    written = io.BytesIO()
    _Contents(written).dump(given)
    return written.getvalue()


class _Contents(pickle.Pickler):
    def persistent_id(self, given: object) -> str | None:
        return "function" if callable(given) and not isinstance(given, type) else None
