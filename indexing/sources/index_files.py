"""Read index files of other libraries that list the parts of the archives beside them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from videoloader.errors import IndexingError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.local import FileSource
from videoloader.indexing.sources.regular_file import kind_at
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.state import check_unchanged
from videoloader.indexing.sources.tar_headers import BLOCK, padded

# DALI, tools/wds2idx.py: "v1.2 <samples>", then one line for each sample, with "<extension> <offset> <size> <name>" for
# each of its files. Earlier versions have no names.
_WDS_VERSION = re.compile(rb"v1\.([2-9]) (\d{1,18})")
_WDS_SAMPLE = re.compile(rb"\S* (\d{1,18}) (\d{1,18}) ([^\s\0]+)(?: (?=\S* \d)|$)")
# DALI, tools/tfrecord2idx: "<offset> <size>" of each record, including its header and footer.
_RECORD_LINE = re.compile(rb"(\d{1,18}) (\d{1,18})\s*")
# A record's length, data and two checksums.
_LEAST_RECORD = 16
# Protocols whose URLs begin with the name of a server.
_SERVER_ALONE = re.compile(r"(?:^|::)(?:https?|s?ftp|ssh|smb|(?:web)?hdfs)://[^/]*\Z", re.IGNORECASE)
_PIECE, _LONGEST_LINE = 16 << 20, 16 << 20


class Member(NamedTuple):
    """A file in an archive: its name, and where its bytes are. A negative offset means that they cannot be read."""

    name: str
    offset: int
    size: int


def file_beside(archive: ByteSource, endings: tuple[str, ...]) -> ByteSource | None:
    """Return the first file beside an archive with one of these endings in place of its own, or None.

    Args:
        archive: a local file, or a remote one, for which each ending takes a request.
        endings: endings with the dot. An ending that begins with a plus follows the archive's own: ``"+.idx"``.
    """
    if not isinstance(archive, FileSource | RemoteSource):
        return None
    if isinstance(archive, RemoteSource) and not _has_neighbours(archive.name):
        return None
    folder, slash, name = archive.name.rpartition("/")
    for ending in endings:
        stem = name if ending.startswith("+") else os.path.splitext(name)[0]
        beside = f"{folder}{slash}{stem}{ending.removeprefix('+')}"
        if beside == archive.name:
            continue
        if isinstance(archive, RemoteSource):
            remote = archive.beside(beside)
            if remote.exists():
                return remote
        elif kind_at(beside) not in (0, stat.S_IFDIR):
            return FileSource(beside)
    return None


def _has_neighbours(url: str) -> bool:
    """Whether the last part of a URL is the name of a file, and all that says which file it is."""
    return not _SERVER_ALONE.search(url) and not set("?#") & set(url.rpartition("/")[2])


def lines_of(index: ByteSource) -> Iterator[bytes]:
    """Yield the lines of an index file, without their line breaks. Little of it is in memory at once.

    Raises:
        IndexingError: a line is too long for one.
        StaleIndexError: the file changes meanwhile.
    """
    rest = b""
    for offset in range(0, index.size, _PIECE):
        *whole, rest = (rest + index.read(offset, _PIECE)).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise IndexingError(f"has a line of more than {_LONGEST_LINE} bytes: delete it", index.name)
        yield from whole
    if rest:
        yield rest
    check_unchanged(index)


def does_not_fit(index: str, archive: ByteSource, why: str) -> IndexingError:
    """Return the error for an index file of this name that does not describe the archive beside it."""
    return IndexingError(f"does not match {archive.name} ({why}): recreate it, or delete it", index)


def members_of_tar(archive: ByteSource) -> tuple[str, list[Member]] | None:
    """Return the members of a tar archive by the ``.idx`` file of DALI's wds2idx beside it, and the name of that file.

    The result is None if there is none.

    It is checked that they can lie in this archive, but not that their headers are there.

    Raises:
        IndexingError: the index file does not fit the archive.
    """
    index = file_beside(archive, (".idx",))
    if index is None:
        return None
    lines = lines_of(index)
    head = _WDS_VERSION.fullmatch(next(lines, b"").strip())
    if head is None:  # of an older version, or made by something else
        return None
    members: list[Member] = []
    count = end = 0
    for count, line in enumerate(lines, 1):  # noqa: B007 - it is used after the loop
        line, at = line.rstrip(), 0  # an extension at its begin may be empty
        while found := _WDS_SAMPLE.match(line, at):
            name, offset, size = os.fsdecode(found[3]), int(found[1]), int(found[2])
            if offset % BLOCK or offset < end + BLOCK or offset + size > archive.size:
                raise does_not_fit(index.name, archive, f"{name} cannot lie at bytes {offset} to {offset + size}")
            members.append(Member(name, offset, size))
            at, end = found.end(), padded(offset + size)
        if at < len(line):
            told = os.fsdecode(line[:80])
            raise IndexingError(f"is damaged, or names members with spaces: {told!r}; delete it", index.name)
    if count != int(head[2]):
        raise IndexingError(f"is cut off: {count} of {int(head[2])} lines; recreate it, or delete it", index.name)
    return index.name, members


def records_of_tfrecord(file: ByteSource) -> tuple[str, list[int]] | None:
    """Return where a TFRecord file's records start, and the last ends, by the ``.idx`` file of DALI's tfrecord2idx.

    Returns:
        The name of the index file and the positions; None if there is none, or it was made by something else.

    Raises:
        IndexingError: the index file does not fit.
    """
    index = file_beside(file, ("+.idx", ".idx"))
    if index is None:
        return None
    starts = [0]
    for line in filter(bytes.strip, lines_of(index)):
        found = _RECORD_LINE.fullmatch(line)
        if found is None:
            return None
        offset, size = int(found[1]), int(found[2])
        if offset != starts[-1] or size < _LEAST_RECORD:
            raise does_not_fit(index.name, file, f"no record of {size} bytes begins at byte {offset}")
        starts.append(offset + size)
    if starts[-1] != file.size:
        raise does_not_fit(index.name, file, f"its records end at byte {starts[-1]} of {file.size}")
    return index.name, starts
