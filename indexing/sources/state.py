"""Whether bytes are still those that they were when an index was made of them, or when reading began."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from videoloader.errors import StaleIndexError
from videoloader.indexing.sources.base import ByteSource


class Place(NamedTuple):
    """The place of the bytes of an archive's member: the archive's path or URL, and bytes of it."""

    archive: str
    offset: int
    size: int


@dataclass(frozen=True)
class SourceState:
    """A mark that changes with the bytes.

    Attributes:
        fingerprint: fingerprint of the source; it begins with its size and a hyphen where it has one.
        inode: inode of a local file; 0 where there is none, or it is not known.
        changed: time at which that inode was last changed in any way, nanoseconds.
        host: machine of a local file: on another machine a copy of it may have other times.
        place: place of a member of an archive of this state, if that is known.
        compared: whether the bytes read must be of this state.
    """

    fingerprint: str
    inode: int = 0
    changed: int = 0
    host: str = ""
    place: Place | None = field(default=None, compare=False)
    compared: bool = field(default=True, compare=False)

    def difference(self, now: SourceState) -> str | None:
        """The difference from now; None where there is none, or nothing is compared."""
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
        if version != version_now:
            return f"time of change or version {version}, now {version_now}"
        # File systems in user space give one file several numbers in turn, but no other times.
        if self.inode and now.inode and self.inode != now.inode and self.changed != now.changed:
            return f"another file lies there: inode {self.inode}, now {now.inode}"
        return None


def state_of(source: ByteSource) -> SourceState | None:
    """The state of a source as it was opened; None where it is not known, as of a remote one that was not read yet."""
    state: SourceState | None = getattr(source, "state", None)
    return state


def check_unchanged(source: ByteSource, known: SourceState | None = None) -> None:
    """Make sure that what was read of a source so far is of one version. A source of another making is believed.

    Args:
        source: a source of this library, or any other.
        known: the state that it should have; default: that when it was opened.

    Raises:
        StaleIndexError: the bytes are others, or may be.
    """
    if check := getattr(source, "check_unchanged", None):
        check(known)


def require_same(known: SourceState | None, now: SourceState, name: str) -> None:
    """Raise StaleIndexError if a state is known and another one than now."""
    if known is not None and known != now and (difference := known.difference(now)):
        raise StaleIndexError(f"has changed since it was indexed or opened: {difference}", name)


@cache
def host() -> str:
    """The name of this machine."""
    return platform.node()


def state_of_file(status: os.stat_result) -> SourceState:
    """The state of a local file."""
    return SourceState(f"{status.st_size}-{status.st_mtime_ns}", status.st_ino, status.st_ctime_ns, host())
