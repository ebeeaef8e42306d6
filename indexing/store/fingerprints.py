"""Whether a video is still the one that was indexed, by the mark of it that a store was told to take."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, TypeAlias

from videoloader.errors import VideoLoaderError
from videoloader.indexing.sources import ByteSource, FolderSource, open_source
from videoloader.indexing.sources.folder import folder_fingerprint, split_times, time_of_change
from videoloader.indexing.sources.state import state_of_file

# What a store takes for the same video: one of the same size and time of change; of the same size alone; or of the same
# bytes, which are read where the time is another one.
FingerprintKind: TypeAlias = Literal["mtime", "size", "content"]

_READ_AT_ONCE = 4 << 20


def fingerprint_of(source: str, kind: FingerprintKind = "mtime") -> str | None:
    """A text that changes when the video does. None where there is no such source.

    By time of change, files and folders cost one look at the file system; a folder's text changes when files come, go
    or are renamed, or its list of times is written, and reading tells of one that was written anew. Other sources are
    opened, remote ones asked. By content, all bytes are read.
    """
    now = _by_time(source)
    if kind == "mtime" or now is None:
        return now
    try:
        if kind == "content":
            return f"content:{_content(source, now)}:{now}"
        return f"size:{now.partition('-')[0] if os.path.isfile(source) else _sizes(open_source(source))}"
    except VideoLoaderError:
        return None


def is_same(source: str, stored: str) -> bool:
    """Whether the video is the one that has the stored fingerprint, of whatever kind."""
    kind = _kind_of(stored)
    if kind == "content" and stored.endswith(f":{_by_time(source)}"):
        return True
    found = fingerprint_of(source, kind)
    return found is not None and _without_time(found) == _without_time(stored)


def renewed(source: str, stored: str, kind: FingerprintKind) -> str | None:
    """The fingerprint to store for a video that is the same: its present time, or another kind where asked."""
    up_to_date = _kind_of(stored) == kind and (kind != "content" or stored.endswith(f":{_by_time(source)}"))
    return stored if up_to_date else fingerprint_of(source, kind)


def is_by_time(stored: str) -> bool:
    """Whether a stored fingerprint is one of size and time of change."""
    return _kind_of(stored) == "mtime"


def _kind_of(stored: str) -> FingerprintKind:
    return "size" if stored.startswith("size:") else "content" if stored.startswith("content:") else "mtime"


def _without_time(fingerprint: str) -> str:
    return ":".join(fingerprint.split(":")[:2])


def _by_time(source: str) -> str | None:
    with suppress(OSError, ValueError):
        path, times = split_times(source)
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            listed = time_of_change(os.path.join(path, times["timestamps"])) if "timestamps" in times else None
            return folder_fingerprint(status.st_mtime_ns, listed)
        if not times:
            return state_of_file(status).fingerprint
    with suppress(VideoLoaderError):
        return open_source(source).fingerprint
    return None


def has_fingerprint(source: str, known: str, archives: dict[str, str]) -> bool:
    """Whether a video has this fingerprint still. An archive that is as it was is not searched for its members.

    Args:
        source: name of the video.
        known: the fingerprint that it had.
        archives: fingerprints of the archives that were looked at so far; new ones are added.
    """
    archive, member, _ = source.partition("::")
    if member and archive not in archives:
        archives[archive] = state_of_file(os.stat(archive)).fingerprint if os.path.isfile(archive) else ""
    # A member's fingerprint begins with its archive's.
    unchanged = bool(member and archives[archive]) and known.startswith(archives[archive] + "-")
    return unchanged or is_same(source, known)


def _sizes(source: ByteSource) -> str:
    """The size of a source; of a folder the names and sizes of all files."""
    if not isinstance(source, FolderSource):
        return str(source.size)
    names = [os.path.basename(file) for file in source.files]
    return f"{source.size}-{blake2b(repr((names, source.offsets)).encode(), digest_size=16).hexdigest()}"


@lru_cache(maxsize=1 << 16)
def _content(source: str, now: str) -> str:
    """A hash of all bytes of a source as it is now: read once a process."""
    opened = open_source(source)
    hashed = blake2b(_sizes(opened).encode(), digest_size=16)
    for start in range(0, opened.size, _READ_AT_ONCE):
        (data,) = opened.read_ranges([start], [min(_READ_AT_ONCE, opened.size - start)])
        hashed.update(data)
    return hashed.hexdigest()
