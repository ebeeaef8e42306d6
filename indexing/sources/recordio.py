"""Read records of MXNet's RecordIO files in place.

A record is ``uint32 magic, uint32 flag << 29 | length, data``, little-endian, padded to a multiple of four bytes
(dmlc-core, include/dmlc/recordio.h). Data that contains the magic is split there into parts that leave it out.
"""

from __future__ import annotations

import math
import os
import re
import struct
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from videoloader.errors import IndexingError, SourceError
from videoloader.indexing.sources.base import ByteSource, is_number
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.forward import forward
from videoloader.indexing.sources.index_files import file_beside, lines_of
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.state import check_unchanged, version_of

MAGIC = struct.pack("<I", 0xCED7230A)
_HEADER = struct.Struct("<4sI")
HEADER_SIZE = _HEADER.size
_LENGTH_BITS = 29
_KEY_LINE = re.compile(rb"(\d{1,18})\t(\d{1,18})\r?")
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
# python/mxnet/recordio.py, IRHeader: flag, label, id, id2. If the flag is not 0, that many labels follow.
_IMAGE_HEADER = struct.Struct("<IfQQ")
_UNPACKED = "unpacked"
# No video begins with so few labels and such a first label: no four letters give a number like it.
_MOST_LABELS, _LARGEST_LABEL = 1 << 16, 1e9

_directories: DirectoryCache[array[int]] = DirectoryCache(1 << 23)
_key_tables: DirectoryCache[dict[int, int]] = DirectoryCache(1 << 20)


class _Part(NamedTuple):
    flag: int
    start: int
    size: int
    next: int


class RecordHeader(NamedTuple):
    """The header that ``mxnet.recordio.pack`` puts before a record: its size, labels and ids."""

    size: int
    labels: list[float]
    id: int
    id2: int


def is_recordio(head: bytes) -> bool:
    """Whether a file begins with the header of a record."""
    return head.startswith(MAGIC)


def open_recordio(file: ByteSource, member: str) -> ByteSource:
    """Open a record of a RecordIO file.

    Args:
        file: the ``.rec`` file.
        member: the record's key if an ``.idx`` file is beside the file, else its number from 0. A header from
            ``mxnet.recordio.pack`` is left out if one is recognised; with ``/unpacked`` after the key, always.

    Raises:
        SourceError: there is no such record.
        IndexingError: the file or its ``.idx`` is damaged or truncated.
    """
    key, slash, form = member.partition("/")
    if slash and form != _UNPACKED:
        raise SourceError(f"{member!r} is neither a record's number nor number/{_UNPACKED}", file.name)
    record = _record_of(file, list(_parts(file, _find(file, key))), f"{file.name}::{member}")
    if not slash:
        header = read_header(record)
        return record if header is None else PartSource(record, header.size, record.size - header.size, record.name)
    head = record.read(0, _IMAGE_HEADER.size)
    skip = _IMAGE_HEADER.size + 4 * _IMAGE_HEADER.unpack(head)[0] if len(head) == _IMAGE_HEADER.size else 1 << 62
    if skip > record.size:
        raise IndexingError("the record is too short for the header of mxnet.recordio.pack", record.name)
    return PartSource(record, skip, record.size - skip, record.name)


def read_recordio(file: ByteSource) -> list[tuple[int, RecordHeader | None]]:
    """Return (key, header) of all records in order, in one pass over the file; keys are as in ``open_recordio``.

    Raises:
        IndexingError: the file or its ``.idx`` is damaged or truncated.
    """
    source, headers, ends = forward(file), dict[int, RecordHeader | None](), list[int]()

    def see(start: int) -> None:
        parts = list(_parts(source, start))
        headers[start] = read_header(_record_of(source, parts, file.name))
        ends.append(parts[-1].next)

    table = keys_beside(file)
    if table is None:
        starts = _directories.get(version_of(file), lambda: _walk(source, see))
        table = dict(enumerate(starts))
    keys = sorted(table, key=table.__getitem__)
    for key in keys:
        if table[key] not in headers:
            see(table[key])
    # If the table is truncated or belongs to another file, rows would be missing without notice.
    if [table[key] for key in keys] != [0, *ends[:-1]] or ends[-1] < file.size:
        table_name = f"{os.path.splitext(file.name)[0]}.idx"
        raise IndexingError(
            f"does not list each record of {file.name} exactly once: recreate it, or delete it", table_name
        )
    return [(key, headers[table[key]]) for key in keys]


def read_header(record: ByteSource) -> RecordHeader | None:
    """Return the header that a record begins with, or None. No container begins with bytes that look like one."""
    head = record.read(0, _IMAGE_HEADER.size)
    if len(head) < _IMAGE_HEADER.size:
        return None
    count, label, *ids = _IMAGE_HEADER.unpack(head)
    size = _IMAGE_HEADER.size + 4 * count
    if count >= _MOST_LABELS or size > record.size or not math.isfinite(label) or abs(label) > _LARGEST_LABEL:
        return None
    labels = struct.unpack(f"<{count}f", record.read(_IMAGE_HEADER.size, 4 * count)) if count else [label]
    return RecordHeader(size, list(labels), *ids)


def _record_of(file: ByteSource, parts: list[_Part], name: str) -> ByteSource:
    if len(parts) == 1:
        return PartSource(file, parts[0].start, parts[0].size, name)
    joined = MAGIC.join(file.read(part.start, part.size) for part in parts)
    check_unchanged(file)  # from now on, nobody compares the file any more
    return MemorySource(joined, name)


def _find(file: ByteSource, key: str) -> int:
    if not is_number(key):
        raise SourceError(f"{key!r} is not the number of a record", file.name)
    table = keys_beside(file)
    if table is not None:
        if int(key) not in table:
            raise SourceError(f"has no record {key} (its .idx file lists {len(table)})", file.name)
        return table[int(key)]
    starts = _directories.get(version_of(file), lambda: _walk(forward(file)))
    if int(key) >= len(starts):
        raise SourceError(f"has no record {key} (it has {len(starts)})", file.name)
    return starts[int(key)]


def keys_beside(file: ByteSource) -> dict[int, int] | None:
    """Return the offset of each key, from the ``.idx`` file beside a ``.rec`` file; None if there is none."""
    if not file.name.endswith(".rec"):
        return None
    most = file.size // HEADER_SIZE
    if isinstance(file, RemoteSource):  # looked for only once, since it takes a request
        return _key_tables.get(version_of(file), lambda: _read_remote_keys(file, most)) or None
    beside = file_beside(file, (".idx",))
    return None if beside is None else _key_tables.get(version_of(beside), lambda: _read_keys(beside, most))


def _read_keys(table: ByteSource | None, most: int) -> dict[int, int]:
    if table is None:
        return {}
    keys: dict[int, int] = {}
    for line in lines_of(table):
        found = _KEY_LINE.fullmatch(line)
        if found is None or len(keys) > most:
            why = "lists more records than the file holds" if found else "is not a table of 'key<tab>offset' lines"
            raise IndexingError(why, table.name)
        keys[int(found[1])] = int(found[2])
    return keys


def _read_remote_keys(file: RemoteSource, most: int) -> dict[int, int]:
    keys = _read_keys(file_beside(file, (".idx",)), most)
    if keys:  # no later request might tell that both were replaced meanwhile
        file.ask_again()
    return keys


def _walk(file: ByteSource, see: Callable[[int], None] = lambda start: None) -> array[int]:
    starts = array("q")
    position = 0
    while position < file.size:
        starts.append(position)
        see(position)
        for part in _parts(file, position):
            position = part.next
    return starts


def _parts(file: ByteSource, position: int) -> Iterator[_Part]:
    """Yield the parts of the record that begins at a position."""
    part = _read_part(file, position)
    if part.flag not in (_WHOLE, _FIRST):
        raise IndexingError(f"no record begins at byte {position}", file.name)
    yield part
    while part.flag in (_FIRST, _MIDDLE):
        position = part.next
        part = _read_part(file, position)
        if part.flag not in (_MIDDLE, _LAST):
            raise IndexingError(f"the record at byte {position} should continue the previous one", file.name)
        yield part


def _read_part(file: ByteSource, position: int) -> _Part:
    header = file.read(position, _HEADER.size)
    if len(header) < _HEADER.size:
        raise IndexingError(f"is cut off in the record at byte {position}", file.name)
    magic, word = _HEADER.unpack(header)
    if magic != MAGIC:
        raise IndexingError(f"no record begins at byte {position}", file.name)
    flag, size = word >> _LENGTH_BITS, word & (1 << _LENGTH_BITS) - 1
    start = position + _HEADER.size
    if start + size > file.size:
        raise IndexingError(f"is cut off: the record at byte {position} has {size} bytes", file.name)
    return _Part(flag, start, size, start + -(-size // 4) * 4)
