"""Replaces Python's TypeError for a wrong argument by one line that names the right one, or the type it must have.

Types are checked only after a call has failed, so that nothing that works is refused, and calls that work cost only
a microsecond more.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from itertools import chain
from numbers import Integral, Real
from types import FunctionType
from typing import Any, BinaryIO, Literal, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from videoloader.errors import (
    ArgumentError,
    MissingAttributeError,
    VideoLoaderError,
    in_users_code,
    what_the_system_lacks,
)
from videoloader.errors.names_elsewhere import alike, meant
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.errors.short_text import short_text

_F = TypeVar("_F", bound=Callable[..., Any])
_EXAMPLES: Mapping[str, object] = dict(
    dataset='VideoDataset.from_folder("videos")', mode="RandomWindow(16, stride=4)", batch_size=8, length=16, size=224
) | dict(alpha=0.8, num_classes=400)
_OWNERS = ("self", "cls", "_cls")  # the last is that of a NamedTuple
_NUMBERS = {int: Integral, float: Real}
# Types of arguments that need no look: asking whether a value of another type is an integer takes longer.
_KEPT = frozenset((str, bool, float, type(None), tuple, list, dict))
_OF_VALUES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# One more than any argument takes: the check of the argument itself knows what it may be.
_MOST_BITS = 65
_LISTS = (Sequence, Iterable, Collection, list, tuple)
# What lists hold that are looked through.
_PLAIN = (str, int, float, os.PathLike, type(None))
_CALLED = dict(BinaryIO="a binary file", Callable="a function", Mapping="a dict", NoneType="None", PathLike="a Path")
_CALLED |= dict(bool="True or False", bytes="bytes", float="a number", int="an integer", str="a string")


def tells_of_arguments(given: _F) -> _F:
    """Wrap a function, or all public methods of a class, so that a call with wrong arguments names the right ones.

    Integers of other libraries reach it as Python's, because arithmetic with theirs, such as NumPy's, overflows.

    Methods that Python itself calls, such as ``__getitem__``, are not wrapped and cost no more.

    Raises:
        ArgumentError: an argument is unknown, missing or given twice, or an integer of more than 64 bits; or the
            function fails with an error that is not the library's own, because an argument has the wrong type, or a
            value that Python, NumPy or PyTorch cannot work with.
    """
    if isinstance(given, type):
        wrap_constructors(given, methods=True)
        return given

    @wraps(given)
    def call(*args: Any, **arguments: Any) -> Any:
        if any(map(_is_foreign, chain(args, arguments.values()))):
            args, arguments = _plain(given, args, arguments)
        try:
            return given(*args, **arguments)
        except Exception as error:
            raise_of_handler(error)  # a constructor that it interrupted has made only a part of its object
            # A missing attribute may mean that an argument is an object of another class of the library.
            if isinstance(error, VideoLoaderError) and not isinstance(error, MissingAttributeError):
                raise
            # A TypeError of the call itself (wrong arguments) has no traceback entry below this one.
            if isinstance(error, TypeError) and error.__traceback__ and error.__traceback__.tb_next is None:
                raise ArgumentError(_what_is_wrong(given, args, arguments) or str(error)) from None
            with suppress(MemoryError):  # if even this look finds no memory, the error is about that
                if wrong := argument_of_wrong_type(given, args, arguments):
                    raise ArgumentError(f"{_name(given, args)}'s {wrong}") from error
            if wrong := _without_numbers(error, given, args, arguments):
                raise ArgumentError(f"{_name(given, args)}'s {wrong}") from error
            if lack := what_the_system_lacks(error):
                raise lack from error
            if _is_about_values(error):
                told = f"fails with what it was given ({type(error).__name__}: {error!s:.200})"
                raise ArgumentError(f"{_name(given, args)} {told}") from error
            raise

    return cast(_F, call)


def wrap_constructors(public: object, *, methods: bool = False) -> None:
    """Wrap a class's constructors in place as ``tells_of_arguments`` does; anything but a class is left alone.

    Args:
        public: the class.
        methods: whether to wrap all other public methods, too.
    """
    for owner in public.__mro__ if isinstance(public, type) else ():
        for name, made in list(vars(owner).items()):
            kind = type(made) if isinstance(made, classmethod | staticmethod) else None
            function = made if kind is None else made.__func__
            told = name == "__init__" or kind is classmethod or (methods and not name.startswith("_"))
            # A protocol's constructor is Python's own.
            is_own = isinstance(function, FunctionType) and function.__module__.startswith("videoloader.")
            if told and is_own and not hasattr(function, "__wrapped__"):
                wrapped = tells_of_arguments(function)
                setattr(owner, name, wrapped if kind is None else kind(wrapped))


def _is_foreign(value: object) -> bool:
    """Whether a value is an integer of another library, or one that nothing takes."""
    if type(value) is int:
        return value.bit_length() > _MOST_BITS
    return type(value) not in _KEPT and isinstance(value, Integral) and not isinstance(value, int)


def _plain(
    function: Callable[..., Any], args: tuple[Any, ...], arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments by position and by name, with Python's integers for those of other libraries."""
    try:
        named = inspect.signature(function).bind(*args, **arguments).arguments
    except TypeError:  # wrong arguments, of which the call itself tells
        named = {}
    for name, value in named.items():
        if isinstance(value, np.timedelta64):  # to NumPy, an integer, in any unit
            told = f'must be a number, got {value!r}: divide it by np.timedelta64(1, "s") for seconds'
            raise ArgumentError(f"{_name(function, args)}'s {name} {told}")
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            told = f"must be an integer of at most 64 bits, got one of {value.bit_length()}"
            raise ArgumentError(f"{_name(function, args)}'s {name} {told}")
    given = {name: _as_plain(each) for name, each in arguments.items()}
    return tuple(map(_as_plain, args)), given


def _as_plain(value: Any) -> Any:
    return int(value) if _is_foreign(value) and not isinstance(value, np.timedelta64) else value


def _is_about_values(error: Exception) -> bool:
    """Whether an error is one by which Python, NumPy or PyTorch tell of values, and no user's function raised it."""
    of_gpu = str(error).startswith(("CUDA", "cuDNN", "CUBLAS", "NCCL"))
    if of_gpu or not isinstance(error, _OF_VALUES):
        return False
    return type(error).__module__.partition(".")[0] in ("builtins", "numpy", "struct") and not in_users_code(error)


def _what_is_wrong(function: Callable[..., Any], args: tuple[Any, ...], arguments: Mapping[str, Any]) -> str | None:
    name, hints = _name(function, args), hints_of(function, args)
    parameters = dict(inspect.signature(function).parameters)
    if next(iter(parameters), None) in _OWNERS:
        parameters.pop(next(iter(parameters)))
        args = args[1:]
    by_place = [each.name for each in parameters.values() if each.kind is not each.KEYWORD_ONLY]
    for given in arguments:
        if given not in parameters:
            return f"{name} has no argument {given}: {meant(given, parameters) or alike(given, parameters)}"
    if extra := args[len(by_place) :]:
        by_name = [each for each in parameters if each not in by_place and each not in arguments]
        shown = f"{name} takes {' and '.join(by_place) or 'nothing'} by position and all else by name"
        # A type that fits everything is not known, and several lists are not meant as one list of lists.
        apart = not any(isinstance(each, list | tuple) for each in args)
        if apart and len(by_place) == 1 and fits(args, hint := hints[by_place[0]]) and not fits(object(), hint):
            return f"{shown}: write {name}(({', '.join(map(short_text, args))}))"
        if not by_name:
            return f"{name} takes {len(by_place)} arguments, got {len(args)}: {short_text(extra[0])} is too many"
        if not fits(extra[0], hints[by_name[0]]):
            return f"{shown} ({', '.join(by_name)}), got {short_text(extra[0])}"
        return f"{shown}: write {by_name[0]}={short_text(extra[0])}, if that is what is meant"
    for each in parameters.values():
        if each.name in by_place[: len(args)]:
            if each.name in arguments:
                return f"{name} is given {each.name} twice: by position and by name"
        elif each.default is each.empty and each.name not in arguments:
            known = each.name in _EXAMPLES and hints[each.name] is not str
            example = f", such as {each.name}={_EXAMPLES[each.name]}" if known else ""
            return f"{name} needs the argument {each.name}{example}"
    return None


def _name(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The name for messages: that of the class for a constructor, ``Class.method``, or the function's own."""
    first = next(iter(inspect.signature(function).parameters), None)
    if first not in _OWNERS or not args:
        return function.__qualname__
    owner = (type(args[0]) if first == "self" else args[0]).__name__
    return owner if function.__name__ in ("__init__", "__new__", "__call__") else f"{owner}.{function.__name__}"


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
        if name not in _OWNERS and not fits(value, hint := hints[name]):
            default = signature.parameters[name].default
            told = default and not callable(default) and fits(default, hint)
            example = f": such as {name}={default!r}" if told else ""
            return f"{name} must be {_called(hint)}, got {short_text(value)}{example}"
        for place, element, kind in _elements(name, value, hints[name]):
            if not fits(element, kind):
                return f"{place} must be {_called(kind)}, got {short_text(element)}"
    return None


def _without_numbers(
    failure: Exception, function: Callable[..., Any], args: tuple[Any, ...], arguments: Mapping[str, Any]
) -> str | None:
    """A message about the argument that failed as a tensor without plain numbers, such as one with a gradient."""
    if not isinstance(failure, RuntimeError | TypeError):
        return None
    for name, value in inspect.signature(function).bind(*args, **arguments).arguments.items():
        if hasattr(value, "detach"):
            try:
                np.asarray(value)
            except (RuntimeError, TypeError) as error:
                if str(error) == str(failure):  # or the call failed for another reason
                    return f"{name} is a tensor whose numbers cannot be read ({str(error).partition('. ')[0]})"
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
        return not isinstance(value, str | bytes | type) and getattr(value, "ndim", 1) > 0
    if wanted in _LISTS and isinstance(value, list | tuple) and not _has_length(value):
        return False
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(fits, value, inner))
    if wanted in (str, os.PathLike) and isinstance(value, str | os.PathLike):
        return isinstance(value, wanted) and _is_text(value)
    if wanted is BinaryIO:
        return hasattr(value, "read")
    try:
        return isinstance(value, _NUMBERS.get(wanted, wanted)) and not (wanted in _NUMBERS and isinstance(value, bool))
    except TypeError:  # not a class, or a protocol without runtime checks
        return True


def _has_length(value: list[Any] | tuple[Any, ...]) -> bool:
    try:
        return len(value) >= 0
    except Exception:  # a user's class says anything
        return False


def _is_text(value: str | os.PathLike[str]) -> bool:
    """Whether a text or path is one that files and databases can hold."""
    try:
        text = os.fspath(value)  # what ``os.scandir(b"…")`` yields gives bytes
        return isinstance(text, str) and (bool(os.fsencode(text)) or text == "")
    except (TypeError, UnicodeEncodeError):  # ``__fspath__`` gives no path; half of a character
        return False


def _elements(name: str, value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """The elements of a list of texts, paths or numbers: name for the message, value and type."""
    for each in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        kinds = get_args(each)[:1] if get_origin(each) in _LISTS and isinstance(value, list | tuple) else ()
        inner = get_args(kinds[0]) if kinds and get_origin(kinds[0]) in (Union, types.UnionType) else kinds
        if inner and all((get_origin(kind) or kind) in _PLAIN for kind in inner):
            yield from ((f"{name}[{place}]", element, kinds[0]) for place, element in enumerate(value))


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
