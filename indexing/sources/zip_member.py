"""Read members of zip archives: stored ones in place, deflated ones unpacked into memory."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable

from videoloader.errors import IndexingError, SourceError, UnsupportedError
from videoloader.indexing.limits import beyond, current_limits, exceeds_table_bytes
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import SEVERAL, DirectoryCache
from videoloader.indexing.sources.forward import forward
from videoloader.indexing.sources.links import follow_links
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.near_names import near_names
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.state import version_of

# APPNOTE.TXT, 4.3.7: local file header. The lengths of the name and the extra field are its last two numbers.
_LOCAL_HEADER = struct.Struct("<4s22xHH")
# 4.3.16: end of central directory record. The number of members is its fifth field; a comment may follow.
_END_RECORD = struct.Struct("<4s3HH10x")
_LONGEST_END = _END_RECORD.size + (1 << 16) - 1
_ENCRYPTED, _UTF_8 = 1, 1 << 11
# Deflate cannot compress more than this (zlib, "Technical Details").
_LARGEST_RATIO = 1032
_PIECE = 1 << 20
# About two and a half million members.
_LARGEST_DIRECTORY = 256 << 20
# The system that wrote a member (4.4.2.2), and the most bytes of a path there.
_UNIX, _LONGEST_TARGET = 3, 4096
_JOINED = "begin with files that their directory does not list, as joined archives do: these are not read"


# Of each archive its files, and doubts about it.
_directories: DirectoryCache[tuple[dict[str, zipfile.ZipInfo], list[str]]] = DirectoryCache(
    1 << 19, lambda found: len(found[0])
)


def is_zip(head: bytes) -> bool:
    """Whether a file begins with a zip archive's first member."""
    return head.startswith((b"PK\3\4", b"PK\5\6"))


def open_zip_member(archive: ByteSource, name: str) -> ByteSource:
    """Open a file in an archive.

    Raises:
        SourceError: there is no such file.
        UnsupportedError: the file is encrypted, or compressed by a method other than deflate.
        IndexingError: the archive is damaged or truncated.
    """
    directory, _ = _directories.get(version_of(archive), lambda: _read_directory(archive))
    member = directory.get(name)
    if member is not None and _is_link(member):
        raise SourceError(f"member {name!r} is a link to a file that is not in the archive", archive.name)
    if member is None:
        raise SourceError(
            f"has no member {name!r} (it has {len(directory)}){near_names(name, directory)}", archive.name
        )
    return _open(archive, member, f"{archive.name}::{name}")


def _open(archive: ByteSource, member: zipfile.ZipInfo, full_name: str) -> ByteSource:
    if member.flag_bits & _ENCRYPTED or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnsupportedError(f"is encrypted, or packed by method {member.compress_type}", full_name)
    begin = member.header_offset
    stored_name = member.orig_filename.encode("utf-8" if member.flag_bits & _UTF_8 else "cp437")
    header = archive.read(max(begin, 0), _LOCAL_HEADER.size + len(stored_name))
    if begin < 0 or len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\3\4"):
        raise IndexingError(f"has no header at byte {begin}", full_name)
    _, name_size, extra_size = _LOCAL_HEADER.unpack_from(header)
    if name_size != len(stored_name) or header[_LOCAL_HEADER.size :] != stored_name:
        raise IndexingError(f"is not the member at byte {begin}", full_name)
    start = begin + _LOCAL_HEADER.size + name_size + extra_size
    if start + member.compress_size > archive.size:
        raise IndexingError(f"is cut off: the archive ends at byte {archive.size}", full_name)
    if member.compress_type == zipfile.ZIP_STORED and member.compress_size != member.file_size:
        raise IndexingError(f"is damaged: {member.compress_size} bytes where {member.file_size} should be", full_name)
    if member.compress_type == zipfile.ZIP_STORED:
        return PartSource(archive, start, member.compress_size, full_name, member.CRC)
    return MemorySource(_inflate(archive, start, member, full_name), full_name)


def read_zip(archive: ByteSource, wanted: Callable[[str, int], bool]) -> tuple[dict[str, bytes | None], list[str]]:
    """Return the files of an archive in the order of its directory, with the bytes of the wanted ones, and doubts.

    Doubts are what may surprise about the archive, as the end of a sentence.

    Args:
        archive: archive to read.
        wanted: whether a file of this name and size is wanted.

    Raises:
        UnsupportedError, IndexingError: as in ``open_zip_member``.
    """
    source = forward(archive)
    directory, doubts = _directories.get(version_of(archive), lambda: _read_directory(archive))
    contents: dict[str, bytes | None] = dict.fromkeys(directory)
    taken = [name for name, each in directory.items() if wanted(name, each.file_size) and not _is_link(each)]
    size = sum(directory[name].file_size for name in taken)
    if exceeds_table_bytes(size, lambda: archive.size):
        raise beyond("table_bytes", f"has {size} bytes of small files, unpacked", archive.name)
    for name in sorted(taken, key=lambda name: directory[name].header_offset):
        member = directory[name]
        content = open_zip_member(source, name).read(0, member.file_size) if member.file_size else b""
        _check_content(content, member, f"{archive.name}::{name}")
        contents[name] = content
    return contents, doubts


def _inflate(archive: ByteSource, start: int, member: zipfile.ZipInfo, name: str) -> bytes:
    packed_size, size = member.compress_size, member.file_size
    if size > current_limits().member_bytes:
        raise beyond("member_bytes", f"is deflated, and {size} bytes unpacked (or unpack the archive)", name)
    if not 0 < size <= packed_size * _LARGEST_RATIO:
        raise IndexingError(f"is damaged: {packed_size} bytes cannot hold {size}", name)
    # Piece by piece, so that compressed data, unpacked data and a copy of it are never in memory together.
    unpacked, packer = io.BytesIO(), zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for offset in range(0, packed_size, _PIECE):
            piece = archive.read(start + offset, min(_PIECE, packed_size - offset))
            while piece and (left := size - unpacked.tell()):
                unpacked.write(packer.decompress(piece, min(left, _PIECE)))
                piece = packer.unconsumed_tail
        while (left := size - unpacked.tell()) and (rest := packer.decompress(b"", min(left, _PIECE))):
            unpacked.write(rest)
    except zlib.error as error:
        raise IndexingError(f"is damaged ({error})", name) from None
    if unpacked.tell() != size:
        raise IndexingError(f"is damaged: {unpacked.tell()} bytes where {size} should be", name)
    with unpacked.getbuffer() as content:
        _check_content(content, member, name)
    return unpacked.getvalue()


def _check_content(content: bytes | memoryview, member: zipfile.ZipInfo, name: str) -> None:
    if zlib.crc32(content) != member.CRC:
        raise IndexingError("is damaged: its checksum does not match", name)


def _told_members(archive: ByteSource, comment: int) -> int:
    """Return the number of members by the record at the end."""
    end, at = b"", -1
    for size in (_END_RECORD.size + comment, _LONGEST_END):  # the second for bytes after the archive
        if at < 0:
            end = archive.read(max(archive.size - size, 0), size)
            at = end.rfind(b"PK\5\6")
    return int(_END_RECORD.unpack_from(end, at)[-1])


def _is_link(member: zipfile.ZipInfo) -> bool:
    """Whether a member is a soft link, by the mode of the Unix that wrote it, as in ``zip --symlinks``."""
    return member.create_system == _UNIX and stat.S_ISLNK(member.external_attr >> 16)


def _target(archive: ByteSource, member: zipfile.ZipInfo) -> str:
    if not 0 < member.file_size <= _LONGEST_TARGET:
        return ""
    name = f"{archive.name}::{member.filename}"
    target = _open(archive, member, name).read(0, member.file_size)
    _check_content(target, member, name)
    return os.fsdecode(target)


class _BoundedFile:
    """An archive for ``zipfile``, which would read a directory at once, however large it claims to be."""

    def __init__(self, archive: ByteSource) -> None:
        self._name, self._file = archive.name, archive.open()
        self.seek, self.tell, self.close = self._file.seek, self._file.tell, self._file.close

    def read(self, size: int = -1) -> bytes:
        """Read bytes, but no more than a directory may have."""
        if size > _LARGEST_DIRECTORY:
            what = f"has a directory of more than {_LARGEST_DIRECTORY} bytes: divide the archive, or unpack it"
            raise UnsupportedError(what, self._name)
        return self._file.read(size)


def _read_directory(archive: ByteSource) -> tuple[dict[str, zipfile.ZipInfo], list[str]]:
    if archive.size == _END_RECORD.size and archive.read(0, 4) == b"PK\5\6":  # an empty one
        return {}, []
    try:
        with zipfile.ZipFile(_BoundedFile(archive)) as file:
            members, told = file.infolist(), _told_members(archive, len(file.comment))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, IndexError, OverflowError, struct.error) as error:
        raise IndexingError(f"is a damaged zip archive ({error})", archive.name) from None
    # zipfile trusts the begin and end of the directory as stated, and so may read only a part of it.
    if told not in (len(members) & 0xFFFF, 0xFFFF):  # the second if a larger field gives the number
        raise IndexingError(
            f"is a damaged zip archive (its directory has {len(members)} entries, but its end record states {told})",
            archive.name,
        )
    # In Python 3.11 ``is_dir`` fails on an empty name.
    files = [each for each in members if not each.filename.endswith("/")]
    by_name = {each.filename: each for each in files}
    targets = {name: _target(archive, each) for name, each in by_name.items() if _is_link(each)}
    if targets:
        folders = [each.filename.rstrip("/") for each in members if each.filename.endswith("/")]
        ends = follow_links(targets.items(), targets, by_name.keys() - targets.keys(), folders)
        by_name |= {name: by_name[end] for name, end in zip(targets, ends, strict=True) if end is not None}
    # zipfile counts offsets from the start of the file, also if another archive comes first.
    first = min((each.header_offset for each in members), default=None)
    is_joined = archive.read(0, 4) == b"PK\3\4" if first is None else first > 0
    return by_name, [SEVERAL] * (len(by_name) < len(files)) + [_JOINED] * is_joined
