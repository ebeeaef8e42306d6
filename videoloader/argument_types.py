"""Arguments of a wrong type: one line that names the argument, in place of an error from the inside.

Types are looked at only where a call has failed, so that nothing is refused that works, and a call that works costs
nothing.
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
_CALLED = {
    "BinaryIO": "a binary file",
    "Callable": "a function",
    "Mapping": "a dict",
    "NoneType": "None",
    "PathLike": "a Path",
    "bool": "True or False",
    "bytes": "bytes",
    "float": "a number",
    "int": "an integer",
    "str": "a string",
}


def argument_of_wrong_type(
    function: Callable[..., Any], args: tuple[Any, ...], arguments: Mapping[str, Any]
) -> str | None:
    """What is wrong with the first argument that is not of the type that the function says; None if there is none.

    Args:
        function: the one that was called.
        args, arguments: its arguments by position and by name.

    Example:
        >>> def crop(scale: tuple[float, float] = (0.08, 1.0)) -> None: ...
        >>> argument_of_wrong_type(crop, (0.5,), {})
        'scale must be (number, number), got 0.5: such as scale=(0.08, 1.0)'
    """
    parameters = inspect.signature(function).parameters
    given = inspect.signature(function).bind(*args, **arguments).arguments
    names = _names_in_hints(function, args)
    for name, value in given.items():
        hint = _evaluated(parameters[name].annotation, names)
        if name not in ("self", "cls") and not _fits(value, hint):
            default = parameters[name].default
            is_told = (
                default is not inspect.Parameter.empty and _fits(default, hint) and default and not callable(default)
            )
            example = f": such as {name}={default!r}" if is_told else ""
            return f"{name} must be {_called(hint)}, got {reprlib.repr(value)}{example}"
    return None


def may_be(function: Callable[..., Any], args: tuple[Any, ...], name: str, value: object) -> bool:
    """Whether a value may be the argument of that name.

    Args:
        function: the one that was called.
        args: its arguments by position.
        name: of one of its arguments.
        value: as the user gave it.
    """
    annotation = inspect.signature(function).parameters[name].annotation
    return _fits(value, _evaluated(annotation, _names_in_hints(function, args)))


def _names_in_hints(function: Callable[..., Any], args: tuple[Any, ...]) -> Mapping[str, Any]:
    """What stands behind the names in a function's annotations: those of its module, and of its class's."""
    owner = args[0] if args and isinstance(args[0], type) else type(args[0]) if args else object
    modules = [sys.modules[each.__module__] for each in owner.__mro__ if each.__module__ in sys.modules]
    return ChainMap(getattr(function, "__globals__", {}), *map(vars, modules))


def _evaluated(annotation: Any, names: Mapping[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        found = eval(annotation, {}, names)
        return Any if isinstance(found, str) else found
    except (NameError, TypeError):  # what only type checkers import
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may be of a type. It is where that is not certain."""
    origin, inner = get_origin(hint), get_args(hint)
    wanted = origin or hint
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(value is each or value == each for each in inner if type(each) is type(value))
    if hint is None or value is None:
        return value is hint or hint in (types.NoneType, object)
    if wanted in _LISTS and (isinstance(value, str | bytes) or hasattr(value, "tolist")):
        return not isinstance(value, str | bytes)
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if not isinstance(wanted, type):
        return wanted is not BinaryIO or hasattr(value, "read")
    if getattr(wanted, "_is_protocol", False):
        return all(hasattr(value, name) for name in _members(wanted))
    if wanted in _NUMBERS:
        return isinstance(value, _NUMBERS[wanted]) and not isinstance(value, bool)
    return isinstance(value, wanted) or (wanted is BinaryIO and hasattr(value, "read"))


def _members(protocol: type) -> set[str]:
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    members = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return {name for name in members if not name.startswith("_")}


def _called(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    wanted = origin or hint
    if origin in (Union, types.UnionType):
        each = list(dict.fromkeys(map(_called, inner)))
        return " or ".join([", ".join(each[:-1]), each[-1]][len(each) < 2 :])
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple and Ellipsis not in inner:
        return f"({', '.join(_called(each).removeprefix('an ').removeprefix('a ') for each in inner)})"
    name = getattr(wanted, "__name__", str(wanted))
    return "a list" if wanted in _LISTS else _CALLED.get(name, f"a {name}")
