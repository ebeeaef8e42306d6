"""Finds public names and the modules that they are imported from.

``videoloader`` and ``videoloader.transforms`` list their public names once, in ``__init__.pyi``, where type checkers
look for them, and read that list at run time. ``ModuleFinder`` finds modules that are not where their names say.
"""

from __future__ import annotations

import ast
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from videoloader.errors import ConfigurationError, what_the_system_lacks
from videoloader.errors.argument_names import wrap_constructors
from videoloader.runtime.forks import after_fork, no_forks

# In a checkout these packages are next to the folder videoloader/; once installed, they are inside it.
_BESIDE = ("videoloader.indexing", "videoloader.padding")
# Import paths of earlier versions, to be removed in the next one.
_RENAMED = {
    "videoloader.batch": "videoloader.batching.batch",
    "videoloader.clip_groups": "videoloader.order.by_column",
    "videoloader.corrupt_frames": "videoloader.reading.corrupt_frames",
    "videoloader.loader_stats": "videoloader.batching.stats",
    "videoloader.ordering": "videoloader.order.shuffle",
    "videoloader.planning": "videoloader.packets.decode_plan",
    "videoloader.ranks": "videoloader.runtime.ranks",
    "videoloader.sharding": "videoloader.order.sharding",
    "videoloader.verification_report": "videoloader.verification.report",
}


def modules_of_names(package_file: str) -> dict[str, str]:
    """The module that each public name of a package comes from.

    Args:
        package_file: path of the package's ``__init__.py``. The imports in the ``__init__.pyi`` next to it are read;
            ``from package import *`` means all public names of that package.
    """
    modules: dict[str, str] = {}
    for statement in ast.parse(Path(package_file).with_suffix(".pyi").read_text("utf-8")).body:
        if not isinstance(statement, ast.ImportFrom) or statement.module is None:
            continue
        if statement.names[0].name == "*":
            inner = Path(package_file).parent / statement.module.rpartition(".")[2] / "__init__.py"
            modules |= modules_of_names(str(inner))
        else:
            modules |= dict.fromkeys((each.name for each in statement.names), statement.module)
    return modules


_importing = threading.RLock()


def _start_anew() -> None:
    global _importing
    _importing = threading.RLock()


after_fork(_start_anew)


@contextmanager
def whole_import() -> Iterator[None]:
    """Import in the block, one thread at a time, all or nothing: an exception makes the block's modules forgotten.

    Python itself forgets only the modules that a Ctrl-C leaves incomplete. The next attempt would find the others, so
    it would import in another order, in which some modules need others that are not complete yet.

    Raises:
        VideoLoaderError: the system lacks memory or descriptors of files.
        ConfigurationError: the main thread has ended; PyTorch, which most names need, cannot be imported then.
    """
    with no_forks(), _importing, _outside_of_deleted_folder():
        before = set(sys.modules)
        try:
            yield
        except BaseException as error:
            for name in set(sys.modules) - before:
                package, _, rest = name.partition(".")
                if package == "videoloader":
                    sys.modules.pop(name, None)
                    vars(sys.modules[package]).pop(rest, None)
            public_name.cache_clear()  # or it would give classes of forgotten modules, which no others know
            if isinstance(error, Exception) and (lack := what_the_system_lacks(error)):
                raise lack from error
            if isinstance(error, RuntimeError) and "after shutdown" in str(error):
                told = "the main thread has ended, and PyTorch cannot be imported any more: import torch before"
                raise ConfigurationError(told) from error
            raise


@contextmanager
def _outside_of_deleted_folder() -> Iterator[None]:
    """Leave the current folder for the block if it was deleted: importing PyTorch there makes MKL end the program."""
    if not _folder_was_deleted():
        yield
        return
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def _folder_was_deleted() -> bool:
    try:
        os.getcwd()
    except OSError as error:  # the folder may also be one whose path nobody may read
        return isinstance(error, FileNotFoundError)
    return False


@cache
def public_name(module: str, name: str) -> Any:
    """The object with a name in a module, which is imported. Constructors of a class are wrapped to name arguments."""
    with no_forks():  # a forked process would wait for the thread that is importing the module
        found = getattr(import_module(module), name)
    wrap_constructors(found)
    return found


class ModuleFinder(MetaPathFinder):
    """Finds modules that Python's own finders, which come first, do not find in the package's folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See ``importlib``."""
        if fullname in _BESIDE:
            return PathFinder.find_spec(fullname, [str(Path(__file__).parents[1])])
        return spec_from_loader(fullname, _Renamed()) if fullname in _RENAMED else None


class _Renamed(Loader):
    """Loads the same module under its old name, so that its classes are the same objects."""

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        warnings.warn(f"{old} is now {_RENAMED[old]}", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(_RENAMED[old])
