"""``names_of_archives``: the archives of a data set, whose names may be patterns."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable

from videoloader.errors import ConfigurationError, SourceError, needs
from videoloader.errors.checks import check, path_text
from videoloader.indexing.sources.natural_order import natural_order
from videoloader.indexing.sources.opening import is_remote
from videoloader.indexing.sources.remote import without_colons

_BRACES = re.compile(r"\{(?:(\d{1,9})\.\.(\d{1,9})|([^{},]*(?:,[^{},]*)+))\}")
_MOST_NAMES = 1 << 20
# In URLs a question mark begins the query, and brackets occur in addresses.
_LOCAL_PATTERN, _REMOTE_PATTERN = re.compile(r"[*?\[]"), re.compile(r"\*")


def names_of_archives(archives: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The paths and URLs in the given order; matches of a pattern in natural order.

    Raises:
        ConfigurationError: nothing matches a pattern, or the names come in no fixed order.
        SourceError: a bucket cannot be listed.
    """
    is_set = isinstance(archives, set | frozenset)
    check("archives", archives, not is_set, "a list of paths", ": a set has no order")
    given = [archives] if isinstance(archives, str | os.PathLike) else archives
    paths = [path_text(f"archives[{number}]", each) for number, each in enumerate(given)]
    return [found for path in paths for name in _with_braces(path) for found in _matching(name)]


def _with_braces(name: str) -> list[str]:
    """Expand braces as shells do: ``{000..099}`` and ``{a,b}``."""
    if os.path.exists(name):
        return [name]
    names = [name]
    while braces := _BRACES.search(names[0]):
        first, last, listed = braces.groups()
        if listed is None:
            if int(last) - int(first) >= _MOST_NAMES:
                raise ConfigurationError(f"{name!r} expands to more than {_MOST_NAMES} archives")
            options = [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
        else:
            options = listed.split(",")
        if len(names) * len(options) > _MOST_NAMES or not options:
            raise ConfigurationError(f"{name!r} expands to no archive, or to more than {_MOST_NAMES}")
        parts = [_BRACES.split(each, 1) for each in names]
        names = [f"{part[0]}{option}{part[-1]}" for part in parts for option in options]
    return names


def _matching(name: str) -> list[str]:
    """The files that match a pattern, or the name itself if it is not a pattern."""
    if not is_remote(name):
        if os.path.exists(name) or not _LOCAL_PATTERN.search(name):
            return [name]
        _check_folders(name)
        found = natural_order(glob.glob(name, recursive=True))
    else:
        # Web servers cannot list their files.
        if name.lower().startswith(("http://", "https://")) or not _REMOTE_PATTERN.search(name):
            return [name]
        with needs("reading URLs needs fsspec: pip install 'videoloader[remote]'", name):
            from fsspec.core import url_to_fs
        try:
            filesystem, path = url_to_fs(without_colons(name))
            found = natural_order(filesystem.unstrip_protocol(each) for each in filesystem.glob(path))
        except Exception as error:  # each file system raises errors of its own
            raise SourceError(f"cannot be listed ({type(error).__name__}: {error})", name) from error
    if not found:
        raise ConfigurationError("no archive fits the pattern", name)
    return found


def _check_folders(pattern: str) -> None:
    """Raise SourceError if a folder in which a pattern is looked for cannot be read: ``glob`` would leave it out."""
    parts = pattern.split(os.sep)
    for number, part in enumerate(parts):
        within = os.sep.join(parts[:number]) or (os.sep if number else os.curdir)
        for folder in glob.glob(within, recursive=True):
            try:
                if not stat.S_ISDIR(os.stat(folder).st_mode):
                    continue
                if _LOCAL_PATTERN.search(part):
                    os.scandir(folder).close()
                else:
                    os.stat(os.path.join(folder, os.curdir))
            except (FileNotFoundError, NotADirectoryError):  # a link to nothing
                continue
            except OSError as error:
                raise SourceError(f"cannot be read ({error.strerror})", folder) from None
