"""Find members of tar archives (POSIX.1-2001 pax, ustar, GNU, v7) by their headers, and read them in place.

WebDataset shards are such archives. Python's tarfile would work, but it silently stops at the first damaged header or
truncation, and takes three times as long to list a shard.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError, SourceError, UnsupportedError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.forward import forward
from videoloader.indexing.sources.index_files import Member, does_not_fit, members_of_tar
from videoloader.indexing.sources.links import follow_links
from videoloader.indexing.sources.near_names import near_names
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.state import version_of
from videoloader.indexing.sources.tar_headers import (
    BLOCK,
    has_checksum,
    name_in,
    padded,
    pax_records,
    size_in,
    skip_sparse_map,
)

# Writers fill an archive up to a multiple of this.
_RECORD = 20 * BLOCK
# Limit for a name, or for all pax records of a member: far more than paths and attributes need.
_LONGEST_EXTENSION = 1 << 20
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
# With an index file, this many headers are checked at once, and each other one when its member is read.
_HEADERS_LOOKED_AT = 8
# Where a sample is left out of a remote archive, the gap is larger than most of those where a member has a long name or
# more attributes.
_GAPS_LOOKED_AT = 8
# Stand for the offset of a member whose bytes do not lie in one piece, or whose link leads nowhere.
_SPARSE, _DANGLING = -1, -2


@dataclass(frozen=True, eq=False)
class TarDirectory:
    """The files of an archive in order. This takes 60 bytes for each, so that many archives can be kept in memory.

    Attributes:
        names: names of all files, each between two zero bytes.
        offset, size: int64, position and size of the bytes of each.
        index: name of the index file that they come from, by offset; empty if they come from the headers.
        doubt: reason why files may be missing after the last, a phrase that follows "archives"; empty if there is none.
    """

    names: bytes
    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    index: str = ""
    doubt: str = ""

    @classmethod
    def of_members(cls, members: list[Member], index: str = "", doubt: str = "") -> TarDirectory:
        """Make a directory of files in order."""
        joined = b"\0".join([b"", *(os.fsencode(member.name) for member in members), b""])
        offset, size = (np.array([member[field] for member in members], np.int64) for field in (1, 2))
        return cls(joined, offset, size, index, doubt)

    def __len__(self) -> int:
        return len(self.offset)

    def find(self, name: str) -> Member | None:
        """Return the file of that name; if there are several, the last, as it would overwrite the others."""
        try:
            at = -1 if "\0" in name else self.names.rfind(b"\0" + os.fsencode(_plain(name)) + b"\0")
        except UnicodeEncodeError:  # no file can have this name
            return None
        if at < 0:
            return None
        number = self.names.count(b"\0", 0, at)
        return Member(name, int(self.offset[number]), int(self.size[number]))

    def members(self) -> list[Member]:
        """Return all files."""
        names = [os.fsdecode(name) for name in self.names.split(b"\0")[1:-1]]
        return [Member(*each) for each in zip(names, self.offset.tolist(), self.size.tolist(), strict=True)]


_directories: DirectoryCache[TarDirectory] = DirectoryCache(1 << 21)


def tar_directory(archive: ByteSource) -> TarDirectory:
    """Return the files of an uncompressed archive. Only headers are read, once per archive while it is unchanged.

    Raises:
        UnsupportedError: the file is no tar archive, or a compressed one.
        IndexingError: a header is damaged, or the archive is truncated.
    """
    return _directories.get(version_of(archive), lambda: _walk(forward(archive)))


def read_tar(archive: ByteSource, wanted: Callable[[Member], bool]) -> tuple[TarDirectory, dict[int, bytes]]:
    """Return the files of an archive, and the bytes of the wanted ones by offset, in one pass over it.

    If DALI's index file is beside the archive (``x.idx`` for ``x.tar``), it says where the files are. Some headers are
    checked against it now, and those of wanted members.

    Raises:
        UnsupportedError: the file is no tar archive, or a compressed one.
        IndexingError: a header is damaged, the archive is truncated, or the index file belongs to another archive.
    """
    source, contents = forward(archive), dict[int, bytes]()

    def take(member: Member) -> None:
        if member.offset >= 0 and member.offset not in contents and wanted(member):
            contents[member.offset] = source.read(member.offset, member.size)

    def make() -> TarDirectory:
        _check_kind(source)
        found = members_of_tar(archive)
        if found is None:
            return _walk(source, take)
        index, members = found
        directory = TarDirectory.of_members([each._replace(name=_plain(each.name)) for each in members], index)
        _check_some(archive, directory)
        return directory

    directory = _directories.get(version_of(archive), make)
    for number, member in enumerate(directory.members()):
        if directory.index and member.offset not in contents and wanted(member):
            _check_told(source, directory, number, member)
        take(member)
    return directory, contents


def open_tar_member(archive: ByteSource, name: str) -> ByteSource:
    """Open a file in an archive, in place.

    Raises:
        SourceError: there is no such file.
        UnsupportedError: its bytes do not lie in one piece (a sparse file), or as in ``tar_directory``.
        IndexingError: as in ``tar_directory``.
    """
    directory = tar_directory(archive)
    member = directory.find(name)
    if member is None or member.offset == _DANGLING:
        if member is not None:
            raise SourceError(
                f"member {name!r} is a link to a file that is not in the archive, or not before it", archive.name
            )
        near = near_names(_plain(name), (each.name for each in directory.members()))
        raise SourceError(f"has no member {name!r} (it has {len(directory)}){near}", archive.name)
    if member.offset == _SPARSE:
        raise UnsupportedError(f"member {name!r} is a sparse file: unpack it", archive.name)
    if directory.index:
        number = int(np.searchsorted(directory.offset, member.offset))
        _check_told(forward(archive), directory, number, member._replace(name=_plain(name)))
    return PartSource(archive, member.offset, member.size, f"{archive.name}::{name}")


def _plain(name: str) -> str:
    return posixpath.normpath(name).lstrip("/")


def _escaped(name: str) -> str:
    """Return a name as GNU tar shows it in a list, from which DALI's wds2idx takes it."""
    return re.sub(rb"[^ -[\]-~]", lambda found: b"\\%03o" % found[0][0], os.fsencode(name)).decode("ascii")


def _check_kind(archive: ByteSource) -> None:
    head = archive.read(0, BLOCK)
    for magic, method in _COMPRESSED.items():
        if head.startswith(magic):
            raise UnsupportedError(
                f"is compressed ({method}): its members cannot be read in place, decompress it first", archive.name
            )
    if len(head) < BLOCK or (any(head) and not has_checksum(head)):
        raise UnsupportedError("is not an archive: neither tar, zip, TFRecord, RecordIO nor LMDB", archive.name)


def _check_some(archive: ByteSource, listed: TarDirectory) -> None:
    """Check some of the members of an index file, all that other bytes than a header precede, and the archive's end.

    Of a remote archive, only the largest of those bytes are looked at. Each place takes a request.
    """
    gaps = np.append(listed.offset - BLOCK, archive.size) - np.append(0, padded(listed.offset + listed.size))
    behind = np.argsort(-gaps, kind="stable")[: np.count_nonzero(gaps > 0)]
    if isinstance(archive, RemoteSource):
        behind = behind[:_GAPS_LOOKED_AT]
    some = np.linspace(0, max(len(listed) - 1, 0), _HEADERS_LOOKED_AT).astype(int)
    source, members = forward(archive), [*listed.members(), None]
    for number in sorted({*some.tolist(), *behind.tolist(), len(listed)}):
        _check_told(source, listed, number, members[number])


def _check_told(archive: ByteSource, listed: TarDirectory, number: int, member: Member | None) -> None:
    """Check that a member of an index file is all that has a key between the one before it and its own end.

    Args:
        archive: the archive.
        listed: the members of the index file.
        number: number of the member; that of members for the archive's end.
        member: the member; None for the archive's end.
    """
    begin = padded(int(listed.offset[number - 1] + listed.size[number - 1])) if number else 0
    end = archive.size if member is None else min(padded(member.offset + member.size), archive.size)
    part = PartSource(archive, begin, end - begin, archive.name)
    if member is None and not part.read(0, BLOCK).strip(b"\0"):
        return
    try:
        found = [
            each._replace(offset=begin + each.offset) if each.offset >= 0 else each for each in _walk(part).members()
        ]
    except (IndexingError, UnsupportedError):
        if member is None:
            raise does_not_fit(
                listed.index, archive, f"no header of a file lies at byte {begin}, or after it"
            ) from None
        found = []
    if member is not None:
        here = next((each for each in found if each[1:] == member[1:]), None)
        if here is None:
            raise does_not_fit(listed.index, archive, f"no file of {member.size} bytes begins at byte {member.offset}")
        if member.name not in (here.name, _escaped(here.name)):
            why = f"the file at byte {member.offset} is {here.name}, and not {member.name}"
            raise does_not_fit(listed.index, archive, why)
        found.remove(here)
    for name in (each.name for each in found):
        if not posixpath.basename(name).startswith("."):
            raise does_not_fit(listed.index, archive, f"it does not tell of {name}")


def _walk(archive: ByteSource, see: Callable[[Member], None] = lambda member: None) -> TarDirectory:
    _check_kind(archive)
    members: list[Member] = []
    links: dict[int, tuple[str, bool]] = {}
    folders: list[str] = []
    long: dict[str, str] = {}  # GNU tar's long name and target of the next member, over which pax records go
    for_all: dict[str, str] = {}  # pax records for all following members
    records: dict[str, str] = {}  # pax records for the next member
    sparse_for_all = False
    position = 0
    while True:
        header = archive.read(position, BLOCK)
        if not header.strip(b"\0"):
            doubt = _doubt_at_end(archive, position)
            break
        if len(header) < BLOCK:
            raise IndexingError(f"is cut off in the header at byte {position}", archive.name)
        if not has_checksum(header):
            raise IndexingError(f"the header at byte {position} is damaged", archive.name)
        kind = header[156:157]
        is_of_next = kind in b"LKxXg"
        size = size_in(header, {} if is_of_next else records, position, archive)
        start = position + BLOCK
        if kind == b"S":
            start = skip_sparse_map(header, start, archive)
        # Links, devices and folders have no bytes, whatever their size field says.
        stop = start if kind in b"123456" else start + size
        if stop > archive.size:
            raise IndexingError(
                f"is cut off: the member at byte {position} ends at byte {stop}, the file at {archive.size}",
                archive.name,
            )
        position = padded(stop)
        if is_of_next:
            if size > _LONGEST_EXTENSION:
                raise IndexingError(f"the header at byte {start - BLOCK} tells of {size} bytes of names", archive.name)
            data = archive.read(start, size)
            if kind in b"LK":
                long["path" if kind == b"L" else "linkpath"] = os.fsdecode(data.partition(b"\0")[0])
            elif kind in b"xX":  # Solaris writes X
                records.update(pax_records(data, start, archive))
            else:
                told = pax_records(data, start, archive)
                for_all.update(told)
                sparse_for_all = sparse_for_all or _tells_of_holes(told)
            continue
        known = ChainMap(records, for_all, long)
        sparse = kind == b"S" or sparse_for_all or _tells_of_holes(records)
        name = known.get("GNU.sparse.name") or known.get("path") or name_in(header)
        records, long = {}, {}
        if kind in b"12":
            target = known.get("linkpath") or os.fsdecode(header[157:257].partition(b"\0")[0])
            links[len(members)] = _plain(target) if kind == b"1" else target, kind == b"1"
            start = _DANGLING
        elif kind == b"M":
            raise UnsupportedError("is a part of an archive of several volumes: join them, or unpack it", archive.name)
        elif kind in b"3456DV" or name.endswith("/"):  # V is the archive's own name, and D a folder with its list
            folders += [_plain(name)] * (kind not in b"346V")
            continue
        members.append(Member(_plain(name), _SPARSE if sparse else start, size))
        see(members[-1])
    return TarDirectory.of_members(_with_links_followed(members, links, folders) if links else members, doubt=doubt)


def _tells_of_holes(records: dict[str, str]) -> bool:
    return any(key.startswith("GNU.sparse.") for key in records)


def _doubt_at_end(archive: ByteSource, position: int) -> str:
    """Check that an archive ends here: after whole blocks, and not because the bytes of a header were lost.

    Returns:
        The reason why files may be missing after it all the same; empty if there is none.
    """
    if position > archive.size:
        raise IndexingError(f"is cut off in the member before byte {position}", archive.name)
    if archive.read(position + BLOCK, BLOCK).strip(b"\0"):
        raise IndexingError(f"the header at byte {position} is damaged: it holds zeros, and more follows", archive.name)
    if position == archive.size:
        return "have no end-of-archive marker, so they may be truncated and later files lost"
    if archive.read(position, _RECORD + BLOCK).strip(b"\0"):
        return "contain more after the end-of-archive marker, as joined archives do: that part is not read"
    if archive.size - position > _RECORD + BLOCK:
        return "go on with more zeros than an end needs, as incomplete downloads do, so later files may be lost"
    return ""


def _with_links_followed(members: list[Member], links: dict[int, tuple[str, bool]], folders: list[str]) -> list[Member]:
    """Return the members, with the bytes to which links lead.

    They are those that the files have once all is unpacked, in order: a hard link becomes what has that name at that
    time, a file or a soft link, and soft links lead to what is there in the end. A hard link to what its own name is,
    as GNU tar writes for a file that it is given twice, is left out.

    Args:
        members: all files and links of an archive, in order.
        links: targets by number of the member: the name, and whether it is a hard link.
        folders: names of its folders.
    """
    # For each name, the number of the file or soft link that it is.
    unpacked: dict[str, int] = {}
    kept: list[tuple[Member, int | None]] = []
    for number, member in enumerate(members):
        name, is_hard = links.get(number, ("", False))
        at = unpacked.get(name) if is_hard else number
        if at is None:
            unpacked.pop(member.name, None)
        elif is_hard and at == unpacked.get(member.name):
            continue
        else:
            unpacked[member.name] = at
        kept.append((member, at))
    targets = {name: links[at][0] for name, at in unpacked.items() if at in links}
    soft = {number: links[at][0] for number, (_, at) in enumerate(kept) if at is not None and at in links}
    named = [(kept[number][0].name, target) for number, target in soft.items()]
    ends = follow_links(named, targets, unpacked.keys() - targets.keys(), folders)
    for number, end in zip(soft, ends, strict=True):
        kept[number] = kept[number][0], None if end is None else unpacked[end]
    return [(member if at is None else members[at])._replace(name=member.name) for member, at in kept]
