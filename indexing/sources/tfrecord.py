"""Read records of TFRecord files, and bytes features inside them, in place.

A record is ``uint64 length, uint32 masked CRC-32C of the length, data, uint32 masked CRC-32C of the data``,
little-endian (tensorflow/core/lib/io/record_writer.h). The checksum of the data is not checked, as that would mean
reading all data. It is used only if a length is damaged: then it confirms that the next valid length belongs to the
next record, so that record numbers are never guessed.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from videoloader.errors import IndexingError, SourceError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.sources.base import ByteSource, is_number
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.forward import forward
from videoloader.indexing.sources.index_files import does_not_fit, records_of_tfrecord
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.state import version_of
from videoloader.indexing.sources.tf_example import Features, find_feature, read_features

_HEADER = struct.Struct("<QI")
_WRONG = "wrong checksum of its length"
_FOOTER = struct.Struct("<I")
_FOOTER_SIZE = _FOOTER.size
_AROUND = _HEADER.size + _FOOTER_SIZE
# Bytes searched at a time for a header, and length of the longest record whose data is checked, which takes seconds.
_SCANNED_AT_ONCE, _LONGEST_CHECKED = 1 << 20, 32 << 20
# Bytes that are looked at for the ends of damaged records, before the rest of a file counts as lost: seconds of Python.
_MOST_LOOKED_AT = 16 << 20


class _Records(NamedTuple):
    """Facts about the records of a file.

    Attributes:
        starts: start of each record, and the end of the last one.
        damaged: description of the damage by number of a record whose length is damaged.
        lost: reason why nothing is known of the records after these; "" if there are no more.
        told_by: name of the index file that gave their positions; empty if the headers did.
    """

    starts: array[int]
    damaged: dict[int, str]
    lost: str
    told_by: str = ""


_directories: DirectoryCache[_Records] = DirectoryCache(1 << 23, count=lambda records: len(records.starts))


_CRC32C_ARRAY = np.arange(256, dtype=np.uint32)
for _ in range(8):
    _CRC32C_ARRAY = _CRC32C_ARRAY >> np.uint32(1) ^ (_CRC32C_ARRAY & np.uint32(1)) * np.uint32(0x82F63B78)
_CRC32C: list[int] = _CRC32C_ARRAY.tolist()


def masked_crc32c(data: bytes) -> int:
    """Compute the CRC-32C (RFC 3720, B.4), rotated and shifted as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def is_tfrecord(head: bytes) -> bool:
    """Whether a file begins with the header of a record."""
    return len(head) >= _HEADER.size and _HEADER.unpack_from(head)[1] == masked_crc32c(head[:8])


def open_tfrecord(file: ByteSource, member: str) -> ByteSource:
    """Open a record, or a feature of the ``tf.train.Example`` in it.

    Args:
        file: a TFRecord file; if it is compressed by gzip, its unpacked bytes (``unpacked_tfrecord``).
        member: number of the record from 0; for a feature, followed by ``/`` and its name: ``"17/video/encoded"``.

    Raises:
        SourceError: there is no such record or feature.
        IndexingError: the file or the record is damaged or truncated.
    """
    number, _, feature = member.partition("/")
    records = _directories.get(version_of(file), lambda: _walk(forward(file)))
    known = len(records.starts) - 1
    if not is_number(number) or (int(number) >= known and not records.lost):
        raise SourceError(f"has no record {number!r} (it has {known})", file.name)
    if int(number) >= known:
        raise IndexingError(f"{records.lost}, so record number {number} cannot be found", file.name)
    start, stop = records.starts[int(number)], records.starts[int(number) + 1]
    if fault := records.damaged.get(int(number)):
        raise IndexingError(fault, file.name)
    _check_told(file, records, start, stop)
    start, length = start + _HEADER.size, stop - start - _AROUND
    name = f"{file.name}::{member}"
    record = PartSource(file, start, length, name)
    if not feature:
        return record
    place = find_feature(record, feature)
    return PartSource(file, start + place.start, place.stop - place.start, name)


def read_tfrecord(file: ByteSource, largest: int) -> list[Features | None]:
    """Read the features of all records in one pass over the file; None for a record that is no ``tf.train.Example``.

    If an index file of DALI's tfrecord2idx is beside the file, it says where the records are, and the header of each is
    checked against it.

    Args:
        file: as in ``open_tfrecord``.
        largest: largest feature to read, in bytes.

    Raises:
        IndexingError: the file is damaged or truncated, or the index file belongs to another file.
    """
    source, features = forward(file), dict[int, Features | None]()

    def see(start: int, length: int) -> None:
        try:
            record = PartSource(source, start + _HEADER.size, length, f"{file.name}::{len(features)}")
            features[start] = read_features(record, largest)
        except IndexingError as error:
            raise_of_handler(error)
            features[start] = None

    def make() -> _Records:
        found = records_of_tfrecord(file)
        return _walk(source, see) if found is None else _Records(array("q", found[1]), {}, "", found[0])

    records = _directories.get(version_of(file), make)
    for fault in (*records.damaged.values(), *filter(None, [records.lost])):
        raise IndexingError(fault, file.name)
    for start, stop in zip(records.starts, records.starts[1:], strict=False):
        _check_told(source, records, start, stop)
        if start not in features:
            see(start, stop - start - _AROUND)
    return [features[start] for start in records.starts[:-1]]


def _check_told(file: ByteSource, records: _Records, start: int, stop: int) -> None:
    """Check that a record of this length begins where an index file says."""
    if records.told_by and _record_length(file, start) != (stop - start - _AROUND, ""):
        raise does_not_fit(records.told_by, file, f"no record of {stop - start} bytes begins at byte {start}")


def _walk(file: ByteSource, see: Callable[[int, int], None] = lambda start, length: None) -> _Records:
    """Find the records. One with a damaged length ends where the next begins, if that is certain."""
    records, left = _Records(array("q", [0]), {}, ""), _MOST_LOOKED_AT
    while (position := records.starts[-1]) < file.size:
        length, fault = _record_length(file, position)
        if fault:
            stop, far = _end_of_damaged(file, position, length) if _WRONG in fault and left > 0 else (None, 0)
            left -= far - position
            if stop is None:
                return records._replace(lost=fault)
            records.damaged[len(records.starts) - 1] = fault
            length = stop - position - _AROUND
        see(position, length)
        records.starts.append(position + length + _AROUND)
    return records


def _record_length(file: ByteSource, position: int) -> tuple[int, str]:
    """Return the length in a record's header, and what is wrong with it, or ""."""
    header = file.read(position, _HEADER.size)
    if len(header) < _HEADER.size:
        return 0, f"is cut off in the record at byte {position}"
    length, crc = _HEADER.unpack(header)
    if crc != masked_crc32c(header[:8]):
        return length, f"the record at byte {position} is damaged: {_WRONG}"
    if length > file.size - position - _AROUND:
        return length, f"is cut off: the record at byte {position} has {length} bytes"
    return length, ""


def _end_of_damaged(file: ByteSource, position: int, length: int) -> tuple[int | None, int]:
    """Return the end of a record whose length is damaged, None if it is not certain; and up to where data were read."""
    data = position + _HEADER.size
    # Perhaps only the length's checksum is damaged. A wrong length may end where some later record does, too. It comes
    # second, so that no data is checked for more than one record.
    next_header = far = _next_header(file, data)
    for stop in (next_header, position + length + _AROUND):
        if stop - data - _FOOTER_SIZE in range(_LONGEST_CHECKED) and stop <= file.size:
            far = max(far, stop)
            (crc,) = _FOOTER.unpack(file.read(stop - _FOOTER_SIZE, _FOOTER_SIZE))
            if crc == masked_crc32c(file.read(data, stop - data - _FOOTER_SIZE)):
                return stop, far
    return None, far


def _next_header(file: ByteSource, position: int) -> int:
    """Return the position of the next header with a correct checksum; the end of the file if there is none."""
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
