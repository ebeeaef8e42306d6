"""Expands names of archives: paths and URLs, patterns, and ranges of numbers in braces."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable

from videoloader.checks import check
from videoloader.errors import ConfigurationError, SourceError, needs
from videoloader.indexing.sources.folder import natural_order
from videoloader.indexing.sources.opening import is_remote

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
    given = [archives] if isinstance(archives, str | os.PathLike) else list(archives)
    return [found for each in given for name in _with_braces(os.fspath(each)) for found in _matching(name)]


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
        found = natural_order(glob.glob(name, recursive=True))
    else:
        # Web servers cannot list their files.
        if name.lower().startswith(("http://", "https://")) or not _REMOTE_PATTERN.search(name):
            return [name]
        with needs("reading URLs needs fsspec: pip install 'videoloader[remote]'", name):
            from fsspec.core import url_to_fs
        try:
            filesystem, path = url_to_fs(name)
            found = natural_order(filesystem.unstrip_protocol(each) for each in filesystem.glob(path))
        except Exception as error:  # each file system raises errors of its own
            raise SourceError(f"cannot be listed ({type(error).__name__}: {error})", name) from error
    if not found:
        raise ConfigurationError("no archive fits the pattern", name)
    return found
