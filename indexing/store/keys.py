"""Name videos in a store so that a data set may be moved, with its store or without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from videoloader.errors import IndexingError, SourceError
from videoloader.indexing.sources.opening import is_url
from videoloader.indexing.sources.regular_file import from_here, is_missing, real_path
from videoloader.indexing.sources.state import Place

_AT_ONCE = 1 << 12
# Parts that a path with "/" as separator may have, but its absolute form has not.
_UNTIDY = ("//", "/.", "/\0")
# Rows that are looked for, to learn where the videos of a store lie.
_MOST_ROWS = 200


def absolute_path(path: str) -> str:
    """Return a path's absolute form, with links not resolved unless ``..`` follows one.

    There ``os.path.abspath`` would lead to another file than the system. What follows "::" stays as it is, since the
    name of a member is no path.

    Raises:
        SourceError: the current folder cannot be told, or a part of a path with ``..`` cannot be reached.
    """
    path, colons, member = path.partition("::")
    if colons:
        folder = absolute_path(path or os.curdir)
        return (os.path.join(folder, "") if path[-1:] in ("", "/") else folder) + colons + member
    if os.pardir in path:
        folder, name = os.path.split(from_here(path))
        if name not in ("", os.curdir, os.pardir) and (led := _led_elsewhere(folder)):
            return os.path.join(led, name)
    return os.path.normpath(from_here(path))


@lru_cache(1 << 12)  # many videos share a folder
def _led_elsewhere(folder: str) -> str | None:
    """The place to which a folder's name leads, if its normal form leads elsewhere."""
    real = real_path(folder)
    return None if real == real_path(os.path.normpath(folder)) else real


class SourceKeys(NamedTuple):
    """Convert paths to keys and back.

    The key of a path below a root is what follows the root, so the video is found wherever the root is mounted. The key
    of any other local path is its absolute form, with links not resolved. A URL is its own key.

    Attributes:
        roots: absolute folders, of which the first that fits counts.
        in_last: whether the videos are known to lie below the last of them.
    """

    roots: tuple[str, ...]
    in_last: bool = False

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The part before the key in a path below each root."""
        return tuple(root if root.endswith(os.sep) else root + os.sep for root in self.roots)

    @property
    def root(self) -> str:
        """The folder that keys are relative to: the one known to hold the videos, or the first that exists."""
        if self.in_last:
            return self.roots[-1]
        return next((root for root in self.roots if not is_missing(root)), self.roots[0])

    @staticmethod
    def absolute(source: str) -> str:
        """Return a path's absolute form, which is the same however it is spelled."""
        return source if is_url(source) else absolute_path(source)

    @staticmethod
    def all_absolute(sources: Sequence[str]) -> list[str]:
        """Return ``absolute`` of each source, quickly if all are absolute already, as they usually are."""
        paths: list[str] = []
        for start in range(0, len(sources), _AT_ONCE):
            some = sources[start : start + _AT_ONCE]
            text = "\0".join(["", *some, ""])
            plain = os.sep == "/" and text.count("\0/") == len(some) and not any(map(text.__contains__, _UNTIDY))
            paths.extend(some if plain else map(SourceKeys.absolute, some))  # ``+=`` would add an array's texts
        return paths

    def key_of(self, source: str) -> str:
        if is_url(source):
            return source
        absolute = absolute_path(source)
        for start in self.prefixes:
            if absolute.startswith(start):
                return absolute[len(start) :]
        return absolute

    def path_of(self, key: str) -> str:
        """Return the path of the video with a key: below ``root``."""
        return next(self.paths_of([key]))

    def paths_of(self, keys: Iterable[str]) -> Iterator[str]:
        """Return ``path_of`` of each key, looking for the root only once."""
        root = self.root
        return (key if is_url(key) else os.path.join(root, key) for key in keys)

    def place_of(self, source: str, archive: object, offset: object, size: object) -> Place | None:
        """Return the position of a member of an archive; None if its row does not have it.

        The path of the archive is the start of the member's name, so no row can lead to another file.

        Args:
            source: the user's name of the member.
            archive, offset, size: values of its row.
        """
        key = self.key_of(source)
        if not isinstance(archive, str) or not isinstance(offset, int) or not isinstance(size, int):
            return None
        member = key.removeprefix(archive)
        sound = member.startswith("::") and member != key and source.endswith(member) and min(offset, size) >= 0
        return Place(source.removesuffix(member), offset, size) if sound else None

    def located(self, select: Callable[[str], Iterable[tuple[object, ...]]], store: str) -> SourceKeys:
        """Return the same keys, with ``in_last`` set if one of some videos of a store lies there.

        Of a data set that was copied with its store, and whose original is there, too, the copy is meant, even if it
        has only a part of the videos.

        Args:
            select: function that runs a statement on the store.
            store: path of the store.

        Raises:
            IndexingError: a key is neither text nor bytes.
        """
        if len(self.roots) < 2:
            return self
        some = (from_sql(key, store) for (key,) in select(f"SELECT source FROM videos LIMIT {_MOST_ROWS}"))
        below = [key for key in some if not is_url(key) and not os.path.isabs(key)]
        looked_for = (os.path.join(self.roots[-1], key.partition("::")[0]) for key in below)
        return self._replace(in_last=not all(map(is_missing, looked_for)))

    def is_gone(self, key: str) -> bool:
        """Whether the video is a local file that does not exist. Only local files are checked."""
        if is_url(key) or "::" in key:
            return False
        return all(is_missing(os.path.join(root, key)) for root in (self.roots[-1:] if self.in_last else self.roots))


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
