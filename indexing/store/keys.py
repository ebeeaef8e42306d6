"""The names of videos in a store: such that a data set may be moved, with its store or without."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from videoloader.errors import SourceError
from videoloader.indexing.sources.state import Place

_AT_ONCE = 1 << 12
# What a path with "/" as separator may hold, or end with, that its absolute form does not.
_UNTIDY = ("//", "/.", "/\0")


class SourceKeys(NamedTuple):
    """Paths to keys and back.

    A path below a root is known by what follows the root, so it is found again wherever the root is mounted.
    Every other local path is known by its absolute form, links not resolved; anything with ``://`` as it is.

    Attributes:
        roots: absolute folders, the first that fits counts.
    """

    roots: tuple[str, ...]

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The text before the key of a path below each root."""
        return tuple(root if root.endswith(os.sep) else root + os.sep for root in self.roots)

    @property
    def root(self) -> str:
        """The folder that keys are relative to: the first root that exists."""
        return next((root for root in self.roots if os.path.isdir(root)), self.roots[0])

    @staticmethod
    def absolute(source: str) -> str:
        """The one form of a path that all its spellings have."""
        return source if "://" in source else os.path.abspath(source)

    @staticmethod
    def all_absolute(sources: Sequence[str]) -> list[str]:
        """``absolute`` of each; seen at a glance where all are in that form already, as they mostly are."""
        paths: list[str] = []
        for start in range(0, len(sources), _AT_ONCE):
            some = sources[start : start + _AT_ONCE]
            text = "\0".join(["", *some, ""])
            plain = os.sep == "/" and text.count("\0/") == len(some) and not any(map(text.__contains__, _UNTIDY))
            paths += some if plain else map(SourceKeys.absolute, some)
        return paths

    def key_of(self, source: str) -> str:
        if "://" in source:
            return source
        absolute = os.path.abspath(source)
        for start in self.prefixes:
            if absolute.startswith(start):
                return absolute[len(start) :]
        return absolute

    def path_of(self, key: str) -> str:
        """The place of the video of a key: below the first root that exists."""
        return next(self.paths_of([key]))

    def paths_of(self, keys: Iterable[str]) -> Iterator[str]:
        """``path_of`` of each; the root is looked for once."""
        root = self.root
        return (key if "://" in key else os.path.join(root, key) for key in keys)

    def place_of(self, source: str, archive: object, offset: object, size: object) -> Place | None:
        """The place of a member of an archive; None where its row does not tell.

        The path of the archive is what the member's begins with: no row leads to another file.

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

    def is_gone(self, key: str) -> bool:
        """Whether the video is a local file that does not exist. What is not local is not looked for."""
        if "://" in key or "::" in key:
            return False
        return not any(os.path.exists(os.path.join(root, key)) for root in self.roots)


def to_sql(key: str) -> str | bytes:
    """A key as SQLite holds it: text, or bytes for names of files that are not UTF-8.

    Raises:
        SourceError: it is neither.
    """
    try:
        key.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(key)
        except UnicodeEncodeError as error:
            raise SourceError(f"no file can have this name ({error})", key) from None
    return key


def from_sql(key: str | bytes) -> str:
    return os.fsdecode(key)
