"""Check whether bytes are still the same as when they were indexed, or when reading began."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from videoloader.errors import StaleIndexError
from videoloader.indexing.sources.base import ByteSource


class Place(NamedTuple):
    """The position of an archive's member: the archive's path or URL, and the offset and size there."""

    archive: str
    offset: int
    size: int


@dataclass(frozen=True)
class SourceState:
    """A mark that changes with the bytes.

    Attributes:
        fingerprint: fingerprint of the source; it begins with the size and a hyphen if the source has a size. Nothing
            follows if the size alone counts.
        inode: inode of a local file; 0 if there is none, or it is unknown.
        changed: time in nanoseconds at which that inode was last changed in any way.
        host: machine of a local file, since a copy on another machine may have other times.
        place: position of a member in an archive of this state, if known.
        compared: whether the bytes read must be of this state.
    """

    fingerprint: str
    inode: int = 0
    changed: int = 0
    host: str = ""
    place: Place | None = field(default=None, compare=False)
    compared: bool = field(default=True, compare=False)

    def difference(self, now: SourceState) -> str | None:
        """Describe the difference from the current state; None if there is none, or states are not compared."""
        if not self.compared:
            return None
        size, _, version = self.fingerprint.partition("-")
        size_now, _, version_now = now.fingerprint.partition("-")
        if size.isdigit() and size_now.isdigit() and size != size_now:
            return f"{size} bytes, now {size_now}"
        if self.host and now.host and self.host != now.host:
            return None
        if size != size_now:
            return "other files"
        if version and version != version_now:
            return f"time of change or version {version}, now {version_now}"
        # File systems in user space may give a file several inode numbers in turn, but not other times.
        if self.inode and now.inode and self.inode != now.inode and self.changed != now.changed:
            return f"another file lies there: inode number {self.inode}, now {now.inode}"
        return None


def state_of(source: ByteSource) -> SourceState | None:
    """Return the state of a source when it was opened; None if unknown, as for a remote one that was not read yet."""
    state: SourceState | None = getattr(source, "state", None)
    return state


def version_of(source: ByteSource) -> tuple[str, str, int, int]:
    """Return a key that differs for each version of a source: its name, fingerprint, inode, and time of its change.

    Another local file of the same size and time is told by the last two. So is one with new permissions, needlessly.
    """
    state = state_of(source)
    return source.name, source.fingerprint, state.inode if state else 0, state.changed if state else 0


def check_unchanged(source: ByteSource, known: SourceState | None = None) -> None:
    """Check that everything read from a source so far is of one version. Sources of other classes are trusted.

    Args:
        source: a source of this library, or any other.
        known: state that it should have; None for its state when it was opened.

    Raises:
        StaleIndexError: the bytes have changed, or may have.
    """
    if check := getattr(source, "check_unchanged", None):
        check(known)


def require_same(known: SourceState | None, now: SourceState, name: str) -> None:
    """Raise StaleIndexError if a known state differs from the current one."""
    if known is not None and known != now and (difference := known.difference(now)):
        raise StaleIndexError(f"has changed since it was indexed or opened: {difference}", name)


@cache
def host() -> str:
    """Return the name of this machine."""
    return platform.node()


def state_of_file(status: os.stat_result) -> SourceState:
    """Return the state of a local file."""
    return SourceState(f"{status.st_size}-{status.st_mtime_ns}", status.st_ino, status.st_ctime_ns, host())
