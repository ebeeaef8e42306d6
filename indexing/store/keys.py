"""Name videos in a store so that a data set may be moved, with its store or without."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import NamedTuple

from videoloader.errors import ConfigurationError, IndexingError, SourceError, VideoLoaderError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.sources.folder import split_times
from videoloader.indexing.sources.opening import (
    begins_as_url,
    has_members_only,
    is_remote,
    local_path,
    local_places,
    split_local,
)
from videoloader.indexing.sources.regular_file import from_here, is_missing, is_same_file, real_path
from videoloader.indexing.sources.state import Place

_AT_ONCE = 1 << 12
# Parts that a path with "/" as separator may have, but its absolute form has not.
_UNTIDY = ("//", "/.", "/\0", "/::")
_UP = re.compile(r"(?:(?<=/)|^)\.\.(?=/|$)")
# Stands before a key that would be a URL otherwise, such as "simplecache::memory://a" for a member of an archive.
_NO_URL = "./"
# Rows that are looked for, to learn where the videos of a store lie.
_MOST_ROWS = 200


def absolute_path(path: str) -> str:
    """Return a path's absolute form, with links not resolved unless ``..`` follows one.

    There ``os.path.abspath`` would lead to another file than the system.

    Raises:
        SourceError: the current folder cannot be told, or a part of a path with ``..`` cannot be reached.
    """
    return _absolute(path, _leads_to)


def _absolute(path: str, leads_to: Callable[[str], str]) -> str:
    path = from_here(path)
    if os.pardir in path and (last := list(_UP.finditer(path))[-1:]):
        end = last[0].end()
        path = os.path.join(leads_to(path[:end]), path[end:].lstrip(os.sep))
    path = os.path.normpath(path)
    return path[1:] if path.startswith("//") else path  # Python keeps two slashes, the system does not


def _leads_to(folder: str) -> str:
    """Return the place of a folder whose name ends with "..": the name's normal form, unless that is another folder."""
    real, normal = real_path(folder), os.path.normpath(folder)
    return normal if real == real_path(normal) else real


class SourceKeys(NamedTuple):
    """Convert paths to keys and back.

    The key of a path below the root is what follows the root, so the video is found wherever the root is mounted. The
    key of any other local path is its absolute form, with links not resolved. A URL is its own key.

    Attributes:
        roots: absolute paths of the root, one or several for the same folder.
    """

    roots: tuple[str, ...]

    @classmethod
    def located(
        cls, roots: tuple[str, ...], select: Callable[[str], Iterable[tuple[object, ...]]], store: str
    ) -> SourceKeys:
        """Return the keys of a store with the root where its videos lie.

        Of a data set that was copied with its store, and whose original is there, too, the copy is meant, even if it
        has only a part of the videos. Videos of the original are then outside of the root.

        Args:
            roots: the folder that the store records, and the folder of the store if that may be meant.
            select: function that runs a statement on the store.
            store: path of the store.

        Raises:
            IndexingError: a key is neither text nor bytes.
        """
        first, last = roots[0], roots[-1]
        if first == last:
            return cls((first,))
        some = (from_sql(key, store) for (key,) in select(f"SELECT source FROM videos LIMIT {_MOST_ROWS}"))
        below = (cls.path_below(last, key) for key in some if not begins_as_url(key) and not os.path.isabs(key))
        if is_missing(first) or any(_is_there(split_local(path, _is_there)[0]) for path in below):
            first, last = last, first
        return cls((first, last) if _is_same(first, last) else (first,))

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The part before the key in a path below the root, by each of its paths."""
        return tuple(root if root.endswith(os.sep) else root + os.sep for root in self.roots)

    @property
    def root(self) -> str:
        """The folder that keys are relative to."""
        return self.roots[0]

    @staticmethod
    def absolute(source: str) -> str:
        """Return a path's absolute form, which is the same however it is spelled; a URL as it is.

        What follows a path, such as the name of a member, stays as it is.
        """
        return _absolute_name(source, _Asked(_is_there, _leads_to))

    @staticmethod
    def all_absolute(sources: Sequence[str]) -> list[str]:
        """Return ``absolute`` of each source, quickly if all are absolute already, as they usually are."""
        paths: list[str] = []
        for start in range(0, len(sources), _AT_ONCE):
            some = sources[start : start + _AT_ONCE]
            text = "\0".join(["", *some, ""])
            starts = text.count("\0/") == text.count("\0") - 1 == len(some)
            if os.sep == "/" and starts and not any(map(text.__contains__, _UNTIDY)):
                paths.extend(some)  # ``+=`` would add an array's texts
            else:  # many of them share an archive or a folder
                once = lru_cache(_AT_ONCE)
                asked = _Asked(once(_is_there), once(_leads_to), once(has_members_only))
                paths.extend(_absolute_name(source, asked) for source in some)
        return paths

    def in_root(self, sources: Sequence[str]) -> list[str]:
        """Return ``all_absolute``, with one path of the root in place of its others, so that each video has one."""
        first, *others = self.prefixes
        paths = self.all_absolute(sources)
        for other in others:
            paths = [first + path.removeprefix(other) if path.startswith(other) else path for path in paths]
        return paths

    def key_of(self, source: str) -> str:
        return source if is_remote(source) else self.key_of_absolute(self.absolute(source))

    def key_of_absolute(self, path: str) -> str:
        """Return the key of what ``absolute`` returns for a name on this machine."""
        for start in self.prefixes:
            if path.startswith(start):
                key = path[len(start) :]
                return _NO_URL + key if begins_as_url(key) else key
        return path

    def path_of(self, key: str) -> str:
        """Return the path of the video with a key: below ``root``."""
        return next(self.paths_of([key]))

    def paths_of(self, keys: Iterable[str]) -> Iterator[str]:
        """Return ``path_of`` of each key."""
        return map(partial(self.path_below, self.root), keys)

    @staticmethod
    def path_below(root: str, key: str) -> str:
        """Return the path of the video with a key, if that is relative to a root."""
        return key if begins_as_url(key) else os.path.join(root, key.removeprefix(_NO_URL))

    def place_of(self, source: str, archive: object, offset: object, size: object) -> Place | None:
        """Return the position of a member of an archive; None if its row does not have it.

        The path of the archive is the start of the member's name, so no row can lead to another file.

        Args:
            source: the user's name of the member.
            archive, offset, size: values of its row.
        """
        archive = os.fsdecode(archive) if isinstance(archive, bytes) else archive  # a name that is not UTF-8
        key = self.key_of(source).removeprefix(_NO_URL)
        if not isinstance(archive, str) or not isinstance(offset, int) or not isinstance(size, int):
            return None
        member = key.removeprefix(archive)
        sound = member.startswith("::") and member != key and source.endswith(member) and min(offset, size) >= 0
        return Place(source.removesuffix(member), offset, size) if sound else None

    def is_gone(self, key: str) -> bool:
        """Whether the file or folder of a video on this machine does not exist. Archives are not opened."""
        path = self.path_of(key)
        try:
            places = None if is_remote(path) else local_places(path)
        except VideoLoaderError as error:  # it cannot be reached
            raise_of_handler(error)
            return False
        if places is None:
            return False
        if places.folder is not None:
            return is_missing(places.folder) or not _has_images(path, places.folder)
        first, *beside = places.files
        # Names of a folder that is there go on with what lies in it.
        return is_missing(first) or (bool(beside) and os.path.isdir(first) and is_missing(beside[0]))


def _has_images(name: str, folder: str) -> bool:
    """Whether a folder has a file that a pattern means. One that cannot be read counts as if it had."""
    path, _ = split_times(name)
    if path == folder:  # no pattern
        return True
    try:
        return any(fnmatchcase(file, os.path.basename(path)) for file in os.listdir(folder))
    except OSError:
        return True


class _Asked(NamedTuple):
    """Functions that ask the system about paths. The last one lists a folder, which pays for many names."""

    is_there: Callable[[str], bool]
    leads_to: Callable[[str], str]
    has_members_only: Callable[[str], bool] = lambda path: False


def _absolute_name(name: str, asked: _Asked) -> str:
    if "::" not in name and "://" not in name:
        return _absolute(name or os.curdir, asked.leads_to)
    if is_remote(name):
        return name
    archive, colons, member = name.partition("::")
    if colons and asked.has_members_only(archive):
        return _absolute(archive, asked.leads_to) + colons + member
    path, rest = split_local(name, asked.is_there)
    folder = _absolute(path or os.curdir, asked.leads_to)
    if rest and path[-1:] in ("", os.sep) and not (asked.is_there(path) and _is_of_folder(path, rest)):
        folder = os.path.join(folder, "")  # a file or folder in this folder has a name that begins with "::"
    return folder + rest


def _is_of_folder(folder: str, rest: str) -> bool:
    """Whether what follows the name of a folder are the times of its images, or a key of a database."""
    return rest.startswith(("::fps=", "::timestamps=")) or _is_there(os.path.join(folder, "data.mdb"))


def _is_there(path: str) -> bool:
    return not is_missing(path)


def _is_same(folder: str, other: str) -> bool:
    try:
        return is_same_file(folder, other)
    except SourceError as error:  # one of them cannot be reached
        raise_of_handler(error)
        return False


def path_here(name: str) -> str:
    """Return the absolute path of a store or of its root, which may be given as a ``file://`` URL.

    Raises:
        ConfigurationError: it is on a server.
        SourceError: as in ``absolute_path``.
    """
    if is_remote(name):
        raise ConfigurationError("a store and its root are paths of this machine: copy a store that is elsewhere", name)
    return absolute_path(local_path(name))


def to_sql(key: str) -> str | bytes:
    """Convert a key for SQLite: to text, or to bytes for file names that are not UTF-8.

    Raises:
        SourceError: the key is neither.
    """
    try:
        key.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(key)
        except UnicodeEncodeError as error:
            raise SourceError(f"no file can have this name ({error})", key) from None
    return key


def from_sql(key: object, store: str | None = None) -> str:
    """Convert a key that SQLite returns.

    Args:
        key: the key.
        store: path of the store, for the error.

    Raises:
        IndexingError: the key is neither text nor bytes.
    """
    if not isinstance(key, str | bytes):
        what = f"it has a video with the name {key!r}: delete it and build it again"
        raise IndexingError(f"the index store is damaged: {what}", store)
    return os.fsdecode(key)
