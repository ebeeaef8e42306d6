"""Names the argument that has a wrong type, in place of an error from deep inside the library.

Types are checked only after a call has failed, so that nothing that works is refused, and calls that work cost nothing.
"""

from __future__ import annotations

import inspect
import reprlib
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, BinaryIO, Literal, Union, get_args, get_origin

_NUMBERS = {int: Integral, float: Real}
_LISTS = (Sequence, Iterable, Collection, list, tuple)
_CALLED = dict(BinaryIO="a binary file", Callable="a function", Mapping="a dict", NoneType="None", PathLike="a Path")
_CALLED |= dict(bool="True or False", bytes="bytes", float="a number", int="an integer", str="a string")


def argument_of_wrong_type(
    function: Callable[..., Any], args: tuple[Any, ...], arguments: Mapping[str, Any]
) -> str | None:
    """A message about the first argument whose type differs from the function's annotation; None if all types fit.

    Args:
        function: the function that was called.
        args, arguments: its arguments by position and by name.

    Examples:
        >>> def crop(scale: tuple[float, float] = (0.08, 1.0)) -> None: ...
        >>> argument_of_wrong_type(crop, (0.5,), {})
        'scale must be (number, number), got 0.5: such as scale=(0.08, 1.0)'
    """
    signature, hints = inspect.signature(function), hints_of(function, args)
    for name, value in signature.bind(*args, **arguments).arguments.items():
        if name not in ("self", "cls") and not fits(value, hint := hints[name]):
            default = signature.parameters[name].default
            told = default and not callable(default) and fits(default, hint)
            example = f": such as {name}={default!r}" if told else ""
            return f"{name} must be {_called(hint)}, got {reprlib.repr(value)}{example}"
    return None


def hints_of(function: Callable[..., Any], args: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The type of each argument of a function; ``Any`` for types that only type checkers import.

    Args:
        function: the function that is called.
        args: its arguments by position, the first of which may be of a class with inherited annotations.
    """
    owner = args[0] if args and isinstance(args[0], type) else type(args[0]) if args else object
    modules = [vars(sys.modules[each.__module__]) for each in owner.__mro__ if each.__module__ in sys.modules]
    names = ChainMap(getattr(inspect.unwrap(function), "__globals__", {}), *modules)

    def evaluated(hint: Any) -> Any:
        try:
            return eval(hint, {}, names) if isinstance(hint, str) else hint
        except (AttributeError, NameError, TypeError):
            return Any

    return {name: evaluated(each.annotation) for name, each in inspect.signature(function).parameters.items()}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may be of a type; True where that is uncertain."""
    origin, inner = get_origin(hint), get_args(hint)
    wanted = origin or hint
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if wanted in _LISTS and (isinstance(value, str | bytes) or hasattr(value, "tolist")):
        return not isinstance(value, str | bytes)
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(fits, value, inner))
    if wanted is BinaryIO:
        return hasattr(value, "read")
    try:
        return isinstance(value, _NUMBERS.get(wanted, wanted)) and not (wanted in _NUMBERS and isinstance(value, bool))
    except TypeError:  # not a class, or a protocol without runtime checks
        return True


def _called(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    wanted = origin or hint
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_called, inner)))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple and Ellipsis not in inner:
        return f"({', '.join(_called(each).removeprefix('an ').removeprefix('a ') for each in inner)})"
    name = getattr(wanted, "__name__", str(wanted))
    return "a list" if wanted in _LISTS else _CALLED.get(name, f"a {name}")
