"""Records of TFRecord files, and the bytes features inside them, addressed in place.

A record is ``uint64 length, uint32 masked CRC-32C of the length, data, uint32 masked CRC-32C of the data``,
little-endian (tensorflow/core/lib/io/record_writer.h). The checksum of the data is not looked at: that would read all
of it. Only where a length is damaged it tells whether the next length that is none lies behind the same record: numbers
of records are never guessed.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from videoloader.errors import IndexingError, SourceError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.near_names import near_names
from videoloader.indexing.sources.part import PartSource

_HEADER = struct.Struct("<QI")
_WRONG = "wrong checksum of its length"
_FOOTER = struct.Struct("<I")
_FOOTER_SIZE = _FOOTER.size
_AROUND = _HEADER.size + _FOOTER_SIZE
# Bytes looked through at a time for a header, and of the longest record whose data is checked, which takes seconds.
_SCANNED_AT_ONCE, _LONGEST_CHECKED = 1 << 20, 32 << 20


class _Records(NamedTuple):
    """The facts about the records of a file.

    Attributes:
        starts: start of each record, and the end of the last one.
        damaged: number of a record whose length is damaged -> the damage.
        lost: reason why nothing is known of the records after these; "" where there are no more.
    """

    starts: array[int]
    damaged: dict[int, str]
    lost: str


_directories: DirectoryCache[_Records] = DirectoryCache(1 << 23, count=lambda records: len(records.starts))


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC32C = _crc32c_table()
_CRC32C_ARRAY = np.array(_CRC32C, np.uint32)


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (RFC 3720, B.4), turned and shifted as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def is_tfrecord(head: bytes) -> bool:
    """Whether a file begins with the header of a record."""
    return len(head) >= _HEADER.size and _HEADER.unpack_from(head)[1] == masked_crc32c(head[:8])


def open_tfrecord(file: ByteSource, member: str) -> ByteSource:
    """A record, or a feature of the ``tf.train.Example`` in it.

    Args:
        file: a TFRecord file, not compressed.
        member: number of the record from 0, and for a feature ``/`` and its name: ``"17/video/encoded"``.

    Raises:
        SourceError: there is no such record or feature.
        IndexingError: the file or the record is damaged or cut off.
    """
    number, _, feature = member.partition("/")
    records = _directories.get((file.name, file.fingerprint), lambda: _walk(file))
    known = len(records.starts) - 1
    if not (number.isascii() and number.isdigit()) or (int(number) >= known and not records.lost):
        raise SourceError(f"no record {number!r} among {known}", file.name)
    if int(number) >= known:
        raise IndexingError(f"{records.lost}, so record number {number} cannot be found", file.name)
    start, stop = records.starts[int(number)], records.starts[int(number) + 1]
    if fault := records.damaged.get(int(number)):
        raise IndexingError(fault, file.name)
    start, length = start + _HEADER.size, stop - start - _AROUND
    name = f"{file.name}::{member}"
    record = PartSource(file, start, length, name)
    if not feature:
        return record
    place = _find_feature(record, feature)
    return PartSource(file, start + place.start, place.stop - place.start, name)


def _walk(file: ByteSource) -> _Records:
    """The places of the records. A damaged length ends where the next record begins, if it is sure where that is."""
    records = _Records(array("q", [0]), {}, "")
    while (position := records.starts[-1]) < file.size:
        length, fault = _record_length(file, position)
        if fault:
            stop = _end_of_damaged(file, position, length) if _WRONG in fault else None
            if stop is None:
                return records._replace(lost=fault)
            records.damaged[len(records.starts) - 1] = fault
            length = stop - position - _AROUND
        records.starts.append(position + length + _AROUND)
    return records


def _record_length(file: ByteSource, position: int) -> tuple[int, str]:
    """The length that a record's header tells, and what is wrong with it."""
    header = file.read(position, _HEADER.size)
    if len(header) < _HEADER.size:
        return 0, f"is cut off in the record at byte {position}"
    length, crc = _HEADER.unpack(header)
    if crc != masked_crc32c(header[:8]):
        return length, f"the record at byte {position} is damaged: {_WRONG}"
    if length > file.size - position - _AROUND:
        return length, f"is cut off: the record at byte {position} has {length} bytes"
    return length, ""


def _end_of_damaged(file: ByteSource, position: int, length: int) -> int | None:
    """The end of the record whose length is damaged; None where that is not sure."""
    if length <= file.size - position - _AROUND:
        stop = position + length + _AROUND
        if stop == file.size or is_tfrecord(file.read(stop, _HEADER.size)):
            return stop  # the checksum alone was damaged
    stop = _next_header(file, position + _HEADER.size)
    data = position + _HEADER.size
    if stop - data - _FOOTER_SIZE not in range(_LONGEST_CHECKED):
        return None
    (crc,) = _FOOTER.unpack(file.read(stop - _FOOTER_SIZE, _FOOTER_SIZE))
    return stop if crc == masked_crc32c(file.read(data, stop - data - _FOOTER_SIZE)) else None


def _next_header(file: ByteSource, position: int) -> int:
    """The place of the next header with a right checksum; the end of the file where there is none."""
    while position < file.size:
        data = np.frombuffer(file.read(position, _SCANNED_AT_ONCE + _HEADER.size), np.uint8)
        places = max(len(data) - _HEADER.size + 1, 0)
        crc = np.full(places, 0xFFFFFFFF, np.uint32)
        for place in range(8):
            crc = crc >> np.uint32(8) ^ _CRC32C_ARRAY[(crc ^ data[place : place + places]) & np.uint32(0xFF)]
        crc = ~crc
        masked = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
        stored = np.zeros(places, np.uint32)
        for place in range(4):
            stored |= data[8 + place : 8 + place + places].astype(np.uint32) << np.uint32(8 * place)
        for found in np.flatnonzero(masked == stored).tolist():
            if not _record_length(file, position + found)[1]:
                return position + int(found)
        position += _SCANNED_AT_ONCE
    return file.size


# tensorflow/core/example: Example.features, Features.feature (a map), its key and value, Feature.bytes_list,
# BytesList.value.
_FEATURES, _FEATURE, _KEY, _VALUE, _BYTES_LIST, _BYTES = 1, 1, 1, 2, 1, 1
_VARINT, _LENGTH_DELIMITED = 0, 2
_SIZE_OF_WIRE_TYPE = {1: 8, 5: 4}
_LONGEST_VARINT = 10


def _find_feature(record: ByteSource, name: str) -> range:
    """The place of a feature's bytes in the record, found by stepping over all others."""
    names: list[str] = []
    wanted = None
    for features in _fields(record, 0, record.size, _FEATURES):
        for entry in _fields(record, features.start, features.stop, _FEATURE):
            key = b""
            for field in _fields(record, entry.start, entry.stop, _KEY):
                key = record.read(field.start, min(field.stop - field.start, len(name) * 4 + 1))
            names.append(key.decode("utf-8", "replace"))
            if key == name.encode():
                wanted = entry
    if wanted is None:
        raise SourceError(f"the record has no feature {name!r}{near_names(name, names)}", record.name)
    values = [
        value
        for feature in _fields(record, wanted.start, wanted.stop, _VALUE)
        for each in _fields(record, feature.start, feature.stop, _BYTES_LIST)
        for value in _fields(record, each.start, each.stop, _BYTES)
    ]
    if len(values) != 1:
        raise SourceError(f"feature {name!r} is not one value of bytes, but {len(values)}", record.name)
    return values[0]


def _fields(record: ByteSource, start: int, stop: int, wanted: int) -> Iterator[range]:
    """The places of the length-delimited fields of that number in a message at ``[start, stop)`` of the record."""
    while start < stop:
        head = record.read(start, min(2 * _LONGEST_VARINT, stop - start))
        tag, at = _varint(head, 0, start, record)
        wire_type = tag & 7
        if wire_type in _SIZE_OF_WIRE_TYPE:
            size = _SIZE_OF_WIRE_TYPE[wire_type]
        elif wire_type in (_VARINT, _LENGTH_DELIMITED):
            number, at = _varint(head, at, start, record)
            size = number if wire_type == _LENGTH_DELIMITED else 0
        else:
            raise IndexingError(f"the record is not a tf.train.Example: byte {start} begins no field", record.name)
        value = range(start + at, start + at + size)
        if value.stop > stop:
            raise IndexingError(
                f"the record is not a tf.train.Example: the field at byte {start} is cut off", record.name
            )
        if wire_type == _LENGTH_DELIMITED and tag >> 3 == wanted:
            yield value
        start = value.stop


def _varint(data: bytes, at: int, start: int, record: ByteSource) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = 0
    for place in range(at, min(at + _LONGEST_VARINT, len(data))):
        value |= (data[place] & 0x7F) << 7 * (place - at)
        if not data[place] & 0x80:
            return value, place + 1
    raise IndexingError(f"the record is not a tf.train.Example: byte {start} begins no field", record.name)
