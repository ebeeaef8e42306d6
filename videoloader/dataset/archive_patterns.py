"""``names_of_archives``: the archives of a data set, whose names may be patterns."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from videoloader.errors import ConfigurationError, SourceError, VideoLoaderError, needs, system_reason
from videoloader.errors.checks import check, path_text
from videoloader.indexing.sources.natural_order import natural_order
from videoloader.indexing.sources.opening import is_remote, local_path
from videoloader.indexing.sources.regular_file import is_folder_entry, is_missing
from videoloader.indexing.sources.remote import without_colons
from videoloader.indexing.sources.versions import forget_listings

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_BRACES = re.compile(r"\{(?:(\d{1,9})\.\.(\d{1,9})|([^{},]*(?:,[^{},]*)+))\}")
_MOST_NAMES = 1 << 20
_MAGIC = re.compile(r"[*?\[]")
_ESCAPED_MAGIC = re.compile("%(?:2A|3F|5B)", re.IGNORECASE)


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
    if not is_missing(name):
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
    """The files and folders that match a pattern, or the name itself if it is not a pattern."""
    if not is_remote(name):
        if not (_MAGIC.search(name) and is_missing(name)):
            return [name]
        if "://" in name:  # what is escaped in a URL is no pattern
            name = _ESCAPED_MAGIC.sub(lambda escaped: f"[{unquote(escaped[0])}]", name)
        found = _found(local_path(name), _LocalFolders())
    else:
        # Web servers cannot list their files. A question mark begins a query, and brackets occur in addresses.
        if name.lower().startswith(("http://", "https://")) or "*" not in name:
            return [name]
        with needs("reading URLs needs fsspec: pip install 'videoloader[remote]'", name):
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        url = without_colons(name)
        if "::" in url:
            raise ConfigurationError("a pattern of chained URLs is not expanded: name the archives", name)
        try:
            filesystem, path = url_to_fs(url)
            if isinstance(filesystem, LocalFileSystem):
                found = _found(path, _LocalFolders())
            else:
                found = [filesystem.unstrip_protocol(each) for each in _found(path, _RemoteFolders(filesystem))]
        except VideoLoaderError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # each file system raises errors of its own
            raise SourceError(f"cannot be listed ({type(error).__name__}: {error})", name) from error
        if parted := [each for each in found if "::" in each and "://" in each]:
            raise SourceError("what follows :: in a URL is the name of a member: rename this archive", parted[0])
    if not found:
        raise ConfigurationError("no archive fits the pattern", name)
    return natural_order(found)


class _Folders(Protocol):
    """The folders in which a pattern is looked for.

    Methods raise FileNotFoundError or NotADirectoryError for what is not there.
    """

    def identity(self, folder: str) -> object:
        """Return a value that is the same for all names of one folder."""

    def check_exists(self, path: str) -> None:
        """Raise FileNotFoundError or NotADirectoryError if nothing has this path; a link may lead nowhere."""

    def listed(self, folder: str, part: str) -> list[tuple[str, bool]]:
        """Return the paths in a folder whose names match, and whether each is a folder."""


class _LocalFolders:
    def identity(self, folder: str) -> object:
        with _told(folder):
            status = os.stat(folder or os.curdir)
            return status.st_dev, status.st_ino

    def check_exists(self, path: str) -> None:
        with _told(os.path.dirname(path)):
            os.lstat(path)

    def listed(self, folder: str, part: str) -> list[tuple[str, bool]]:
        with _told(folder), os.scandir(folder or os.curdir) as entries:
            matching = [entry for entry in entries if _name_matches(entry.name, part)]
            return [(os.path.join(folder, entry.name), is_folder_entry(entry)) for entry in matching]


@dataclass(frozen=True)
class _RemoteFolders:
    filesystem: AbstractFileSystem

    def identity(self, folder: str) -> object:
        return folder

    def check_exists(self, path: str) -> None:
        self.filesystem.info(path)

    def listed(self, folder: str, part: str) -> list[tuple[str, bool]]:
        forget_listings(self.filesystem, folder)
        # A folder may be listed as one of its own members.
        given = [(entry["name"].rstrip("/"), entry["type"]) for entry in self.filesystem.ls(folder, detail=True)]
        matching = [each for each in given if _name_matches(os.path.basename(each[0]), part)]
        return [(path, self._is_folder(path, kind, part)) for path, kind in matching if path != folder.rstrip("/")]

    def _is_folder(self, path: str, kind: str, part: str) -> bool:
        """Whether an entry is a folder, or a link to one, which servers such as those of SFTP list as a link."""
        if kind in ("directory", "file"):
            return kind == "directory"
        with suppress(FileNotFoundError, NotADirectoryError):  # a link that leads nowhere
            leads_to_folder: bool = self.filesystem.info(path)["type"] == "directory"
            if leads_to_folder and part == "**":  # nobody could tell whether it leads back up
                raise SourceError("is a link to a folder, into which ** does not go on a server", path)
            return leads_to_folder
        return False


@contextmanager
def _told(folder: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError) as error:  # the second for a zero byte
        raise SourceError(f"cannot be read ({system_reason(error)})", folder or os.curdir) from error


def _found(pattern: str, folders: _Folders) -> list[str]:
    """The paths that match a pattern as in ``glob.glob(recursive=True)``, in no order.

    Both ``glob.glob`` and the ``glob`` of fsspec leave out what is in a folder that cannot be listed; this raises.
    """
    fixed = os.path.dirname(_MAGIC.split(pattern, maxsplit=1)[0] + "x")
    parts = pattern[len(fixed) :].removeprefix("/").split("/")
    found, seen = list[str](), set[tuple[str, int]]()
    # Where to look for which part, and the folders above it that the same "**" has matched.
    waiting: list[tuple[str, int, tuple[object, ...]]] = [(fixed, 0, ())]
    while waiting:
        path, at, above = waiting.pop()
        if (path, at) in seen:  # several "**" may match the same folder
            continue
        seen.add((path, at))
        if at == len(parts):
            found += [path] if path else []
            continue
        is_last = at + 1 == len(parts)
        # What is not there does not match.
        with suppress(FileNotFoundError, NotADirectoryError):
            if parts[at] == "**":
                here = folders.identity(path)
                if here in above:  # a link to a folder that contains it
                    continue
                inner = folders.listed(path, "**")
                waiting.append((path, at + 1, ()))
                for each, is_folder in inner:
                    if is_folder:
                        waiting.append((each, at, (*above, here)))
                    elif is_last:
                        waiting.append((each, at + 1, ()))
            elif _MAGIC.search(parts[at]):
                inner = folders.listed(path, parts[at])
                waiting += [(each, at + 1, ()) for each, is_folder in inner if is_folder or is_last]
            else:
                path = os.path.join(path, parts[at])
                if is_last:
                    folders.check_exists(path)
                waiting.append((path, at + 1, ()))
    return found


def _name_matches(name: str, part: str) -> bool:
    return fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))
