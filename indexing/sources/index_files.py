"""Read index files of other libraries that list the parts of the archives beside them."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from videoloader.errors import IndexingError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.local import FileSource
from videoloader.indexing.sources.regular_file import kind_at
from videoloader.indexing.sources.remote import RemoteSource

_BLOCK = 512
# DALI, tools/wds2idx.py: "v1.2 <samples>", then one line for each sample, with "<extension> <offset> <size> <name>" for
# each of its files. Earlier versions have no names.
_WDS_VERSION = re.compile(rb"v1\.([2-9]) (\d{1,18})")
_WDS_SAMPLE = re.compile(rb"\S* (\d{1,18}) (\d{1,18}) ([^\s\0]+)(?: (?=\S* \d)|$)")
# DALI, tools/tfrecord2idx: "<offset> <size>" of each record, including its header and footer.
_RECORD_LINES = re.compile(rb"(?:\d{1,18} \d{1,18}\r?\n)*(?:\d{1,18} \d{1,18})?\s*")


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
    lines = index.read(0, index.size).splitlines()
    head = _WDS_VERSION.fullmatch(lines[0].strip()) if lines else None
    if head is None:  # of an older version, or made by something else
        return None
    members: list[Member] = []
    for line in lines[1:]:
        line, at = line.rstrip(), 0  # an extension at its begin may be empty
        while found := _WDS_SAMPLE.match(line, at):
            members.append(Member(os.fsdecode(found[3]), int(found[1]), int(found[2])))
            at = found.end()
        if at < len(line):
            told = os.fsdecode(line[:80])
            raise IndexingError(f"is damaged, or names members with spaces: {told!r}; delete it", index.name)
    if len(lines) - 1 != int(head[2]):
        raise IndexingError(
            f"is cut off: {len(lines) - 1} of {int(head[2])} lines; recreate it, or delete it", index.name
        )
    end = 0
    for name, offset, size in members:
        if offset % _BLOCK or offset < end + _BLOCK or offset + size > archive.size:
            raise does_not_fit(index.name, archive, f"{name} cannot lie at bytes {offset} to {offset + size}")
        end = -(-(offset + size) // _BLOCK) * _BLOCK
    return index.name, members


def records_of_tfrecord(file: ByteSource) -> tuple[str, list[int]] | None:
    """Return where a TFRecord file's records start, and the last ends, by the ``.idx`` file of DALI's tfrecord2idx.

    Returns:
        The name of the index file and the positions; None if there is none, or it was made by something else.

    Raises:
        IndexingError: the index file does not fit.
    """
    index = file_beside(file, ("+.idx", ".idx"))
    if index is None or _RECORD_LINES.fullmatch(text := index.read(0, index.size)) is None:
        return None
    numbers = [int(number) for number in text.split()]
    starts = [0]
    for offset, size in zip(numbers[::2], numbers[1::2], strict=True):
        if offset != starts[-1]:
            raise does_not_fit(index.name, file, f"no record begins at byte {offset}")
        starts.append(offset + size)
    if starts[-1] != file.size:
        raise does_not_fit(index.name, file, f"its records end at byte {starts[-1]} of {file.size}")
    return index.name, starts
