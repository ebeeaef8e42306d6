"""Replaces Python's AttributeError for unknown names by one line that says what to write."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from videoloader.errors import ArgumentError, MissingAttributeError, MissingColumnError
from videoloader.errors.names_elsewhere import alike, meant, nearest

_C = TypeVar("_C", bound=type)


def no_such_name(module: str, name: str, known: Collection[str]) -> MissingAttributeError:
    """The error for a name that a module does not have.

    Args:
        module: its name.
        name: the unknown name.
        known: the names that exist.

    Examples:
        >>> print(no_such_name("videoloader", "RandomWindws", ["RandomWindow"]))
        module videoloader has no attribute RandomWindws: write RandomWindow
    """
    told = meant(name, known, ["import"]) or alike(name, known, otherwise=f"dir({module}) lists what it has")
    return MissingAttributeError(f"module {module} has no attribute {name}: {told}")


def no_such_column(column: object, known: Iterable[str], of: str = "", source: str | None = None) -> MissingColumnError:
    """The error for a column that is not there.

    Args:
        column: its name.
        known: the columns that exist.
        of: subject of the message, such as "the row "; empty where ``source`` is one.
        source: see ``VideoLoaderError``.

    Examples:
        >>> print(no_such_column("nihgt", ["night", "split"], "the row "))
        the row has no column 'nihgt'; its columns are 'night', 'split': write 'night'
    """
    names = tuple(known)
    near = nearest(str(column), names)
    told = f"{of}has no column {column!r}; its columns are {', '.join(map(repr, names)) or 'none'}"
    return MissingColumnError(f"{told}: write {near!r}" if near else told, source)


class RowColumns(dict[str, Any]):
    """The other columns of a row. A name that it lacks raises an error that lists those it has."""

    __slots__ = ()

    def __missing__(self, column: object) -> NoReturn:
        raise no_such_column(column, self, "the row ")


class TellsOfReaders(ABCMeta):
    """Metaclass of a class with several constructors: an unknown one raises an error that names the right one."""

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __getattr__(cls, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            there = [each for each in dir(cls) if each[0] != "_" and inspect.ismethod(getattr(cls, each))]
            told = alike(name, there, f"{cls.__name__}.", f"it has {', '.join(there)}")
            elsewhere = meant(name, there, [base.__name__ for base in cls.__mro__])
            raise MissingAttributeError(f"{cls.__name__} has no {name}: {elsewhere or told}")


def tells_of_attributes(called: str, frames: str = "") -> Callable[[_C], _C]:
    """Decorate a class: reading an unknown attribute, or setting one in vain, raises an error that says what to write.

    Args:
        called: name of an object in examples.
        frames: expression for the tensor of frames that it has, whose methods may be meant.
    """

    def decorate(public: _C) -> _C:
        name_of, arguments = public.__name__, list(inspect.signature(public).parameters)
        one = f"an {name_of}" if name_of[0] in "AEIOU" else f"a {name_of}"
        kinds = [base.__name__ for base in public.__mro__]
        is_frozen, sets = dataclasses.is_dataclass(public), cast(Any, public.__setattr__)

        def elsewhere(self: Any, name: str) -> str | None:
            if told := meant(name, dir(self), kinds, f"{called}."):
                return told
            if (
                "columns" in arguments
                and name != "columns"
                and (column := nearest(name, getattr(self.columns, "keys", tuple)()))
            ):
                return f"write {called}.columns[{column!r}]"
            if name in arguments:
                return f"it is only an argument, {name_of}(…, {name}=…)"
            other = meant(name, arguments)
            return other and f"{other}, where the {name_of} is made"

        def missing(self: Any, name: str) -> MissingAttributeError:
            there = [each for each in dir(self) if not each.startswith("_")]
            told = alike(name, there, f"{called}.", f"it has {', '.join(there)}")
            if frames and hasattr(sys.modules["torch"].Tensor, name):
                told = f"write {frames}.{name}"
            return MissingAttributeError(f"{one} has no attribute {name}: {elsewhere(self, name) or told}")

        def read(self: Any, name: str) -> Any:
            if hasattr(type(self), name):
                # The property failed with an error of its own, which this raises again; or a signal's handler raised.
                object.__getattribute__(self, name)
                raise AttributeError(
                    f"an AttributeError of another place, as of a signal's handler, ended reading {name}"
                )
            if name.startswith("_"):
                return object.__getattribute__(self, name)
            raise missing(self, name)

        def change(self: Any, name: str, value: object) -> None:
            # The library's own code may set anything, and subclasses may add attributes.
            of_others = not sys._getframe(1).f_globals["__name__"].startswith("videoloader.")
            if of_others and type(self) is public and not name.startswith("_"):
                if is_frozen or name in vars(self) or isinstance(vars(public).get(name), property):
                    if not hasattr(self, name):
                        raise missing(self, name)
                    replaced = f"dataclasses.replace({called}, {name}=…) makes another"
                    told = replaced if is_frozen and name in arguments else "make another"
                    raise MissingAttributeError(f"{name} of {one} cannot be set: {told}")
                if elsewhere(self, name):
                    raise missing(self, name)
            sets(self, name, value)

        def search(self: Any, item: object) -> NoReturn:
            raise ArgumentError(f"nothing can be looked for in {one}: that would decode all of it")

        methods: dict[str, Callable[..., Any]] = {"__getattr__": read, "__setattr__": change}
        if hasattr(public, "__iter__") and not hasattr(public, "__contains__"):  # Python would iterate
            methods["__contains__"] = search
        for method, function in methods.items():
            setattr(public, method, function)
        return public

    return decorate
