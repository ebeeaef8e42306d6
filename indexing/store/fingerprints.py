"""Recognise whether a video is still the one that was indexed, by a fingerprint of the kind that the store uses."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from videoloader.errors import StaleIndexError, VideoLoaderError
from videoloader.errors.of_handlers import errors_suppressed, raise_of_handler
from videoloader.indexing.sources.base import ByteSource, is_number
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.folder import FolderSource, folder_fingerprint, split_times, time_of_change
from videoloader.indexing.sources.local import FileSource
from videoloader.indexing.sources.opening import has_members_only, open_source, without_scheme
from videoloader.indexing.sources.recordio import HEADER_SIZE, keys_beside
from videoloader.indexing.sources.state import check_unchanged, state_of, state_of_file

# What makes a video the same for a store: the same size and time of change; the same size alone; or the same bytes,
# which are read if the time differs.
FingerprintKind: TypeAlias = Literal["mtime", "size", "content"]

_READ_AT_ONCE = 4 << 20


def fingerprint_of(source: str, kind: FingerprintKind = "mtime", opened: ByteSource | None = None) -> str | None:
    """Return a text that changes when the video does; None if the source does not exist.

    By time of change, a file or folder takes one system call. A folder's text changes when files are added, removed or
    renamed, or when its list of times is written; a rewritten file is noticed when it is read. Other sources are
    opened, which takes a request for remote ones. By content, all bytes are read.

    Args:
        source: name of the video.
        kind: kind of the fingerprint.
        opened: the opened source. The text is that of what was opened, whatever lies there by now.
    """
    now = _by_time(source) if opened is None or isinstance(opened, FolderSource) else opened.fingerprint
    return now if now is None else _of_kind(source, kind, now, opened)


def is_same(source: str, stored: str) -> bool:
    """Whether the video is the one with the stored fingerprint, of whatever kind."""
    return renewed(source, stored, _kind_of(stored)) is not None


def renewed(source: str, stored: str, kind: FingerprintKind) -> str | None:
    """Return a new fingerprint for an unchanged video: with its present time, and of a kind; None if it has changed."""
    now, stored_kind = _by_time(source), _kind_of(stored)
    if now is None:
        return None
    found: str | None = stored
    if stored_kind != "content" or not stored.endswith(f":{now}"):
        found = _of_kind(source, stored_kind, now)
        if found is None or _without_time(found) != _without_time(stored):
            return None
    return found if kind == stored_kind else _of_kind(source, kind, now)


def _of_kind(source: str, kind: FingerprintKind, now: str, opened: ByteSource | None = None) -> str | None:
    """Return the fingerprint of a video whose fingerprint by time is ``now``; None if it is another one by now."""
    if kind == "mtime":
        return now
    try:
        if kind == "content":
            content = _content(source, now) if opened is None else _hash(opened)
            return f"content:{content}:{now}"
        return f"size:{now.partition('-')[0] if os.path.isfile(source) else _sizes(opened or open_source(source))}"
    except VideoLoaderError as error:
        raise_of_handler(error)
        return None


def size_alone(url: str, stored: str) -> str | None:
    """Return a fingerprint of the size alone from a stored one that is not by time; None for a member of an archive.

    The state of a member begins with the size of the archive, which such a fingerprint does not have.
    """
    return None if "::" in url else f"{stored.rpartition(':')[2].partition('-')[0]}-"


def is_by_time(stored: str) -> bool:
    """Whether a stored fingerprint consists of size and time of change."""
    return _kind_of(stored) == "mtime"


def _kind_of(stored: str) -> FingerprintKind:
    return "size" if stored.startswith("size:") else "content" if stored.startswith("content:") else "mtime"


def _without_time(fingerprint: str) -> str:
    return ":".join(fingerprint.split(":")[:2])


def _by_time(source: str) -> str | None:
    with errors_suppressed(OSError, ValueError):
        path, times = split_times(without_scheme(source))
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            listed = time_of_change(os.path.join(path, times["timestamps"])) if "timestamps" in times else None
            return folder_fingerprint(status.st_mtime_ns, listed)
        if not times:
            return state_of_file(status).fingerprint
    with errors_suppressed(VideoLoaderError):
        return open_source(source).fingerprint
    return None


class Archive(NamedTuple):
    """The facts about an archive that tell whether a member is unchanged, without a look at the member.

    Attributes:
        fingerprint: fingerprint of the archive; empty if each member must be looked at.
        records: offset of the record of each key, if a file beside the archive says so. That file may change while
            the archive does not.
    """

    fingerprint: str = ""
    records: Mapping[int, int] | None = None

    def has(self, member: str, known: str) -> bool:
        """Whether a member has a fingerprint, which begins with the archive's and goes on with the member's offset."""
        begin = f"{self.fingerprint}-"
        if self.records is not None:
            key = member.partition("/")[0]
            if not is_number(key) or int(key) not in self.records:
                return False
            begin += f"{self.records[int(key)] + HEADER_SIZE}-"
        return self.fingerprint != "" and known.startswith(begin)


def has_fingerprint(source: str, known: str, archives: dict[str, Archive] | None = None) -> bool:
    """Whether a video still has this fingerprint. If an archive is unchanged, its members are not checked one by one.

    Args:
        source: name of the video.
        known: fingerprint that it had.
        archives: the archives checked so far, where there are many videos; new ones are added.
    """
    archive, colons, member = source.partition("::")
    if not colons or "://" in archive:
        return is_same(source, known)
    found = None if archives is None else archives.get(archive)
    if found is None:
        found = Archive()
        with errors_suppressed(OSError, ValueError, VideoLoaderError):  # it is not there, or not any more
            alone = archives is None and os.path.isfile(archive) and not os.path.lexists(source)
            if alone or (archives is not None and has_members_only(archive)):
                file = FileSource(archive)
                found = Archive(file.fingerprint, keys_beside(file))
        if archives is not None:
            archives[archive] = found
    return found.has(member, known) or is_same(source, known)


def _sizes(source: ByteSource) -> str:
    """Return the size of a source; for a folder, also a hash of the names and sizes of all files."""
    if not isinstance(source, FolderSource):
        return str(source.size)
    names = [os.path.basename(file) for file in source.files]
    return f"{source.size}-{blake2b(repr((names, source.offsets)).encode(), digest_size=16).hexdigest()}"


# Hashes by name and state, of which the inodes tell files of one name, size and time apart.
_hashes: DirectoryCache[str] = DirectoryCache(1 << 22, lambda _: 1)


def _content(source: str, now: str) -> str:
    """Return a hash of all bytes of a source in its current state, computed once per process.

    Raises:
        StaleIndexError: it is in another state.
    """
    opened = open_source(source)
    if not isinstance(opened, FolderSource) and opened.fingerprint != now:
        raise StaleIndexError("has changed meanwhile", source)
    state = state_of(opened)
    return _hash(opened) if state is None else _hashes.get((opened.name, state), lambda: _hash(opened))


def _hash(opened: ByteSource) -> str:
    hashed = blake2b(_sizes(opened).encode(), digest_size=16)
    for start in range(0, opened.size, _READ_AT_ONCE):
        (data,) = opened.read_ranges([start], [min(_READ_AT_ONCE, opened.size - start)])
        hashed.update(data)
    check_unchanged(opened)
    return hashed.hexdigest()
