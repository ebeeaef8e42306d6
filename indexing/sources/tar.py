"""Find members of tar archives (POSIX.1-2001 pax, ustar, GNU, v7) by their headers, and read them in place.

WebDataset shards are such archives. Python's tarfile would work, but it silently stops at the first damaged header or
truncation, and takes three times as long to list a shard.
"""

from __future__ import annotations

import os
import posixpath
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

_BLOCK = 512
# Writers fill an archive up to a multiple of this.
_RECORD = 20 * _BLOCK
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
# Names of at least this length may be truncated in a header.
_SHORT_NAME = 99
# Stand for the offset of a member whose bytes do not lie in one piece, or whose link leads nowhere.
_SPARSE, _DANGLING = -1, -2


@dataclass(frozen=True, eq=False)
class TarDirectory:
    """The files of an archive in order. This takes 60 bytes for each, so that many archives can be kept in memory.

    Attributes:
        names: names of all files, each between two zero bytes.
        offset, size: int64, position and size of the bytes of each.
        index: name of the index file that they come from; empty if they come from the headers.
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
        for number in np.unique(np.linspace(0, len(members) - 1, _HEADERS_LOOKED_AT).astype(int)) if members else ():
            _check_told(archive, members[number], index)
        _check_gaps(archive, directory, index)
        return directory

    directory = _directories.get(version_of(archive), make)
    for member in directory.members():
        if directory.index and member.offset not in contents and wanted(member):
            _check_told(source, member, directory.index)
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
        _check_told(archive, member, directory.index)
    return PartSource(archive, member.offset, member.size, f"{archive.name}::{name}")


def _plain(name: str) -> str:
    return posixpath.normpath(name).lstrip("/")


def _check_kind(archive: ByteSource) -> None:
    head = archive.read(0, _BLOCK)
    for magic, method in _COMPRESSED.items():
        if head.startswith(magic):
            raise UnsupportedError(
                f"is compressed ({method}): its members cannot be read in place, decompress it first", archive.name
            )
    if len(head) < _BLOCK or (any(head) and not _has_checksum(head)):
        raise UnsupportedError("is not an archive: neither tar, zip, TFRecord, RecordIO nor LMDB", archive.name)


def _check_told(archive: ByteSource, member: Member, index: str) -> None:
    """Check that a member's bytes follow a header with its name and size."""
    header = archive.read(member.offset - _BLOCK, _BLOCK)
    try:
        # For files larger than the field can state, the pax records before the header give the size.
        fits = _has_checksum(header) and _number(header[124:136]) in (member.size, 0) and header[156:157] in b"\x000 7"
    except ValueError:
        fits = False
    if not fits:
        raise does_not_fit(index, archive, f"no file of {member.size} bytes begins at byte {member.offset}")
    # Longer names, and names with other characters, are in the records before the header, and altered in it.
    name = _plain(_name(header))
    if len(name) < _SHORT_NAME and name.isascii() and name != _plain(member.name) and _plain(member.name).isascii():
        raise does_not_fit(index, archive, f"the file at byte {member.offset} is {name}, and not {member.name}")


def _check_gaps(archive: ByteSource, listed: TarDirectory, index: str) -> None:
    """Check that no other file with a key lies behind those that an index file lists, or between them.

    Of a remote archive only the largest gaps are looked at. Each takes a request.
    """
    ends = np.append(0, -(-(listed.offset + listed.size) // _BLOCK) * _BLOCK)
    gaps = np.append(listed.offset - _BLOCK, archive.size) - ends
    numbers = np.flatnonzero(gaps > 0)
    if isinstance(archive, RemoteSource):
        numbers = np.argsort(-gaps, kind="stable")[:_GAPS_LOOKED_AT]
    for number in {len(gaps) - 1, *numbers.tolist()}:
        gap = PartSource(archive, int(ends[number]), int(gaps[number]), archive.name)
        if not gap.read(0, _BLOCK).strip(b"\0"):
            continue
        for name in (member.name for member in _walk(gap).members()):
            if not posixpath.basename(name).startswith("."):
                raise does_not_fit(index, archive, f"it does not tell of {name}")


def _walk(archive: ByteSource, see: Callable[[Member], None] = lambda member: None) -> TarDirectory:
    _check_kind(archive)
    members: list[Member] = []
    links: dict[int, tuple[str, bool]] = {}
    folders: list[str] = []
    for_all: dict[str, str] = {}  # pax records for all following members
    records: dict[str, str] = {}  # pax records for the next member
    sparse_for_all = False
    position = 0
    while True:
        header = archive.read(position, _BLOCK)
        if not header.strip(b"\0"):
            doubt = _doubt_at_end(archive, position)
            break
        if len(header) < _BLOCK:
            raise IndexingError(f"is cut off in the header at byte {position}", archive.name)
        if not _has_checksum(header):
            raise IndexingError(f"the header at byte {position} is damaged", archive.name)
        kind = header[156:157]
        is_of_next = kind in b"LKxXg"
        size = _size(header, {} if is_of_next else records, position, archive)
        start = position + _BLOCK
        if kind == b"S":
            start = _skip_sparse_map(header, start, archive)
        # Links, devices and folders have no bytes, whatever their size field says.
        stop = start if kind in b"123456" else start + size
        if stop > archive.size:
            raise IndexingError(
                f"is cut off: the member at byte {position} ends at byte {stop}, the file at {archive.size}",
                archive.name,
            )
        position = -(-stop // _BLOCK) * _BLOCK
        if is_of_next:
            if size > _LONGEST_EXTENSION:
                raise IndexingError(f"the header at byte {start - _BLOCK} tells of {size} bytes of names", archive.name)
            data = archive.read(start, size)
            if kind in b"LK":
                records["path" if kind == b"L" else "linkpath"] = os.fsdecode(data.partition(b"\0")[0])
            elif kind in b"xX":  # Solaris writes X
                records.update(_pax_records(data, start, archive))
            else:
                told = _pax_records(data, start, archive)
                for_all.update(told)
                sparse_for_all = sparse_for_all or _tells_of_holes(told)
            continue
        known = ChainMap(records, for_all)
        sparse = kind == b"S" or sparse_for_all or _tells_of_holes(records)
        name = known.get("GNU.sparse.name") or known.get("path") or _name(header)
        records = {}
        if kind in b"12":
            target = known.get("linkpath") or os.fsdecode(header[157:257].partition(b"\0")[0])
            links[len(members)] = _plain(target) if kind == b"1" else target, kind == b"1"
            start = _DANGLING
        elif kind == b"M":
            raise UnsupportedError("is a part of an archive of several volumes: join them, or unpack it", archive.name)
        elif kind in b"3456V" or name.endswith("/"):  # V is the archive's own name
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
    if archive.read(position + _BLOCK, _BLOCK).strip(b"\0"):
        raise IndexingError(f"the header at byte {position} is damaged: it holds zeros, and more follows", archive.name)
    if position == archive.size:
        return "have no end-of-archive marker, so they may be truncated and later files lost"
    if archive.read(position, _RECORD + _BLOCK).strip(b"\0"):
        return "contain more after the end-of-archive marker, as joined archives do: that part is not read"
    if archive.size - position > _RECORD + _BLOCK:
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


def _has_checksum(header: bytes) -> bool:
    """Whether the bytes of the header add up to its checksum, counting the checksum field as spaces."""
    try:
        stated = _number(header[148:156])
    except ValueError:
        return False
    if stated == sum(header) - sum(header[148:156]) + 8 * 32:
        return True
    # Some old writers summed bytes as signed numbers.
    signed = np.frombuffer(header, np.int8)
    return stated == int(signed.sum(dtype=np.int64) - signed[148:156].sum(dtype=np.int64)) + 8 * 32


def _number(field: bytes) -> int:
    """Read an octal number, or a binary one, as GNU tar writes if the octal one does not fit."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return int(field.partition(b"\0")[0].strip() or b"0", 8)


def _size(header: bytes, records: dict[str, str], position: int, archive: ByteSource) -> int:
    try:
        size = int(records["size"]) if "size" in records else _number(header[124:136])
    except ValueError:
        size = -1
    if not 0 <= size < 1 << 63:
        raise IndexingError(f"the header at byte {position} is damaged: it has no valid size", archive.name)
    return size


def _name(header: bytes) -> str:
    name, prefix = header[:100].partition(b"\0")[0], b""
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].partition(b"\0")[0]
    return os.fsdecode(prefix + b"/" + name if prefix else name)


def _skip_sparse_map(header: bytes, start: int, archive: ByteSource) -> int:
    """Return where the data of a member in GNU's old sparse format starts: its map may continue in further blocks."""
    more = header[482]
    while more:
        block = archive.read(start, _BLOCK)
        if len(block) < _BLOCK:
            raise IndexingError(f"is cut off in the header at byte {start}", archive.name)
        more, start = block[504], start + _BLOCK
    return start


def _pax_records(data: bytes, start: int, archive: ByteSource) -> dict[str, str]:
    r"""Read the records of a pax header, ``"<length> <key>=<value>\n"``, whose length counts the whole record."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at]:
        length, space, _ = data[at : at + 20].partition(b" ")
        end = at + int(length) if length.isdigit() and space else 0
        key, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if end > len(data) or not equals or data[end - 1 : end] != b"\n":
            raise IndexingError(f"the pax header at byte {start + at} is damaged", archive.name)
        # A record without a value cancels an earlier one. A name cannot contain NUL.
        records[os.fsdecode(key)] = os.fsdecode(value.replace(b"\0", b""))
        at = end
    return records
