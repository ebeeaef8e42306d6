"""Find the packets of an AVI stream by its index, or by walking from chunk to chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.avi.header import Header
from videoloader.indexing.sources.base import ByteSource

_ENTRY = np.dtype([("id", "u1", 4), ("flags", "<u4"), ("offset", "<u4"), ("size", "<u4")])
_SUPER_ENTRY = np.dtype([("offset", "<u8"), ("size", "<u4"), ("duration", "<u4")])
_STANDARD_ENTRY = np.dtype([("offset", "<u4"), ("size", "<u4")])
_KEYFRAME = 0x10  # AVIIF_KEYFRAME
_INDEX_HEADER = 24
_INDEX_OF_INDEXES, _INDEX_OF_CHUNKS = 0, 1
# Chunks whose own headers are compared with the index, spread over the stream.
_COMPARED = 8
_LARGEST_READ = 16 << 10
# Bytes between the chunks of streams in which to search for others.
_MOST_UNKNOWN = 4 << 20
# Chunks that libavformat passes over.
_WITHOUT_PACKETS = (b"JUNK", b"idx1", b"indx")
_LIKE_A_CHUNK = re.compile(rb"\d\d[\0-\x7f]{2}|ix\d\d|LIST|RIFF|JUNK|idx1|indx")


class Chunks(NamedTuple):
    """The packets of a stream, in file order.

    Attributes:
        offset: int64[P], position of the payload.
        size: int64[P], bytes; never zero.
        key: bool[P], by the index; True if there is none.
        time: int64[P], time units since the stream began; empty chunks count.
    """

    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    key: npt.NDArray[np.bool_]
    time: npt.NDArray[np.int64]


class _Entries(NamedTuple):
    """Chunks of all streams: position of each chunk's header, payload size, stream number, keyframe flag."""

    begin: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int64]
    key: npt.NDArray[np.bool_]


def is_packet(name: bytes, number: int) -> bool:
    """Whether a chunk of this name is a packet of the stream, and not an index, palette or timecode."""
    return name[:2] == b"%02d" % number and name.isalnum() and name[2:] not in (b"ix", b"pc", b"wc", b"wb")


class _NotPlainError(Exception):
    """The chunks do not follow each other as they should; libavformat searches for the next one byte by byte."""


def find_chunks(source: ByteSource, header: Header, number: int) -> Chunks | None:
    """Return the packets of one stream; None if index and chunks contradict each other, or chunks are damaged.

    Args:
        source: bytes of the file.
        header: header of the same file.
        number: number of the stream.
    """
    between = _Between(source)
    try:
        entries = _read_indexes(source, header, number)
        if entries is None:
            if header.by_index_only:
                return None
            entries = _walk_all(between, header)
        elif not _index_is_complete(between, header, entries, number):
            return None
    except _NotPlainError:
        return None
    own = entries.stream == number
    size, key, begin = entries.size[own], entries.key[own], entries.begin[own]
    if not key.any():
        key = np.arange(len(key)) == 0
    time = header.streams[number].start + np.arange(len(size), dtype=np.int64)
    full = size > 0
    return Chunks(begin[full] + 8, size[full], key[full], time[full])


def _read_indexes(source: ByteSource, header: Header, number: int) -> _Entries | None:
    """Read the file's index, in file order: OpenDML's if the stream has one, else ``idx1``; None if it has neither."""
    if header.streams[number].super_index:
        parts = [
            part
            for each, stream in enumerate(header.streams)
            if stream.super_index
            for part in _read_super_index(source, each, stream.super_index)
        ]
        if not parts:
            raise _NotPlainError
        entries = _Entries(*map(np.concatenate, zip(*parts, strict=True)))
    elif (found := _read_idx1(source, header)) is not None:
        entries = found
    else:
        return None
    order = np.argsort(entries.begin, kind="stable")
    own = entries.begin[entries.stream == number]
    if not len(own) or (own[1:] <= own[:-1]).any():
        raise _NotPlainError
    return _Entries(entries.begin[order], entries.size[order], entries.stream[order], entries.key[order])


def _read_super_index(source: ByteSource, number: int, payload: bytes) -> Iterator[_Entries]:
    """Read the OpenDML index of a stream ("OpenDML AVI File Format Extensions" 1.02, 3.0), part by part."""
    entry_words, field_kind, kind, count, entries = _index_fields(payload)
    if kind == _INDEX_OF_CHUNKS:
        yield _read_standard_index(payload, number, source.size)
        return
    if field_kind or kind != _INDEX_OF_INDEXES or entry_words != 4 or count * _SUPER_ENTRY.itemsize > len(entries):
        raise _NotPlainError
    unread = source.size
    for offset, size, _ in np.frombuffer(entries, _SUPER_ENTRY, count).tolist():
        # Some writers include the chunk's header in this size and others do not, so the chunk itself is asked.
        if offset > source.size - 8 - _INDEX_HEADER:
            raise _NotPlainError
        size = int.from_bytes(source.read(offset + 4, 4), "little")
        unread -= size
        if offset + 8 + size > source.size or unread < 0:
            raise _NotPlainError
        yield _read_standard_index(source.read(offset + 8, size), number, source.size)


def _index_fields(payload: bytes) -> tuple[int, int, int, int, bytes]:
    """Return wLongsPerEntry, bIndexSubType, bIndexType, nEntriesInUse, and the entries."""
    if len(payload) < _INDEX_HEADER:
        raise _NotPlainError
    words, count = int.from_bytes(payload[:2], "little"), int.from_bytes(payload[4:8], "little")
    return words, payload[2], payload[3], count, payload[_INDEX_HEADER:]


def _read_standard_index(payload: bytes, number: int, file_size: int) -> _Entries:
    words, field_kind, kind, count, entries = _index_fields(payload)
    base = int.from_bytes(payload[12:20], "little")
    if words != 2 or field_kind or kind != _INDEX_OF_CHUNKS or count * 8 > len(entries) or base > file_size:
        raise _NotPlainError
    table = np.frombuffer(entries, _STANDARD_ENTRY, count)
    size = table["size"].astype(np.int64)  # the top bit is set if it is no keyframe
    begin = table["offset"].astype(np.int64) + (base - 8)
    return _Entries(begin, size & 0x7FFFFFFF, np.full(count, number), size < 1 << 31)


def _read_idx1(source: ByteSource, header: Header) -> _Entries | None:
    """Read the old index, at the end of the first RIFF; None if there is none."""
    position = header.packets_stop
    head = source.read(position, 8)
    while head[:4] == b"JUNK":
        position += 8 + int.from_bytes(head[4:], "little")
        position += position & 1
        head = source.read(position, 8)
    if head[:4] != b"idx1":
        return None
    count = min(int.from_bytes(head[4:], "little"), source.size - position - 8) // _ENTRY.itemsize
    if not count:
        return None
    table = np.frombuffer(source.read(position + 8, count * _ENTRY.itemsize), _ENTRY)
    names = table["id"]
    tens, ones = names[:, 0] - ord("0"), names[:, 1] - ord("0")  # uint8: characters below "0" wrap to more than 9
    numbered = (tens <= 9) & (ones <= 9)
    if not numbered.all():
        table, names, tens, ones = table[numbered], names[numbered], tens[numbered], ones[numbered]
    stream = (10 * tens + ones).astype(np.int64)
    if not len(table) or ((names[:, 2] == ord("p")) & (names[:, 3] == ord("c"))).any():
        raise _NotPlainError
    # A damaged name would take a packet away from its stream.
    for name in np.unique(names.view("V4")):
        number = int(name.tobytes()[:2])
        if number >= len(header.streams) or (header.streams[number].kind == b"auds") != (name.tobytes()[2:] == b"wb"):
            raise _NotPlainError
    offset = table["offset"].astype(np.int64)
    # Offsets count from the name of the list, from the file's start, or from the first chunk.
    bases = (header.packets - 4, 0, header.packets)
    first, name = int(offset[0]), names[0].tobytes()
    base = next((base for base in bases if source.read(base + first, 4) == name), None)
    if base is None:
        raise _NotPlainError
    return _Entries(offset + base, table["size"].astype(np.int64), stream, table["flags"] & _KEYFRAME != 0)


class _Between:
    """Bytes between the chunks of the streams. libavformat searches there for chunks, byte by byte."""

    def __init__(self, source: ByteSource) -> None:
        self.source, self._left = source, _MOST_UNKNOWN

    def check(self, start: int, stop: int, block: bytes, begin: int) -> None:
        """Raise if some bytes look like a chunk, or are too many. ``block`` holds what was read, from ``begin`` on.

        Their search begins one byte before, where a chunk of odd length may lack its padding.
        """
        start -= 1
        self._left -= stop - start
        if self._left < 0:
            raise _NotPlainError
        here = begin <= start and stop <= begin + len(block)
        if _LIKE_A_CHUNK.search(block[start - begin : stop - begin] if here else self.source.read(start, stop - start)):
            raise _NotPlainError


def _index_is_complete(between: _Between, header: Header, entries: _Entries, number: int) -> bool:
    """Whether the chunks of an index lie side by side, with nothing of the stream between or after them."""
    source = between.source
    begin, size = entries.begin, entries.size
    end = begin + 8 + size + (size & 1)
    if begin[0] < header.packets or (begin[1:] < end[:-1]).any() or end[-1] > source.size + (size[-1] & 1):
        return False
    gaps = np.flatnonzero(begin[1:] != end[:-1])
    starts = [header.packets, *end[gaps].tolist(), int(end[-1])]
    stops = [int(begin[0]), *begin[gaps + 1].tolist(), source.size]
    for start, stop in zip(starts, stops, strict=True):
        if any(found == number for found, _, _ in _walk(between, start, stop, len(header.streams))):
            return False
    own = np.flatnonzero((entries.stream == number) & (size > 0))
    for entry in own[:: max(1, len(own) // _COMPARED)].tolist():
        head = source.read(int(begin[entry]), 8)
        if not is_packet(head[:4], number) or int.from_bytes(head[4:], "little") != size[entry]:
            return False
    return True


def _walk_all(between: _Between, header: Header) -> _Entries:
    found = list(_walk(between, header.packets, between.source.size, len(header.streams)))
    table = np.array(found, np.int64).reshape(-1, 3)
    return _Entries(table[:, 1], table[:, 2], table[:, 0], np.ones(len(table), np.bool_))


def _walk(between: _Between, start: int, stop: int, streams: int) -> Iterator[tuple[int, int, int]]:
    """Yield (stream number, position of the header, payload size) of chunks in a range; lists are entered."""
    source = between.source
    position, begin, block, ahead = start, 0, b"", 8
    while position < stop:
        at = position - begin
        if not 0 <= at <= len(block) - 8:
            begin, block, at = position, source.read(position, ahead), 0
        name, size = block[at : at + 4], int.from_bytes(block[at + 4 : at + 8], "little")
        if name == b"LIST" or (name == b"RIFF" and source.read(position + 8, 4) == b"AVIX"):
            position += 12
            continue
        if len(block) - at < 8 or position + 8 + size > stop or not name.isalnum():
            if stop != source.size:
                raise _NotPlainError
            between.check(position, stop, block, begin)
            return
        if name[:2].isdigit() and int(name[:2]) < streams:
            if name[2:] in (b"pc", b"wc"):
                raise _NotPlainError
            if name[2:] != b"ix":
                yield int(name[:2]), position, size
        elif name not in _WITHOUT_PACKETS and not (name[:2] == b"ix" and name[2:].isdigit()):
            between.check(position, position + 8 + size, block, begin)
        # With small chunks, the following headers are read at the same time.
        ahead = _LARGEST_READ if size < _LARGEST_READ // 4 else 8
        position += 8 + size + (size & 1)
