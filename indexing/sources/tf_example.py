"""Find the features of a ``tf.train.Example``: where bytes features are, and the values of small ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from videoloader.errors import IndexingError, SourceError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.near_names import near_names

# tensorflow/core/example: Example.features, Features.feature (a map), its key and value, Feature.bytes_list,
# BytesList.value. The values of the other lists have number 1, too.
_FEATURES, _FEATURE, _KEY, _VALUE, _BYTES_LIST, _BYTES = 1, 1, 1, 2, 1, 1
_FLOAT_LIST, _INT64_LIST = 2, 3
_VARINT, _LENGTH_DELIMITED = 0, 2
_SIZE_OF_WIRE_TYPE = {1: 8, 5: 4}
_LONGEST_VARINT = 10
# Fields of a record that are looked at, which takes half a second. A feature with one number has six.
_MOST_FIELDS = 200_000


class Features(NamedTuple):
    """The contents of a record: the names of all features, and the values of small ones.

    A feature with one value has that value, one with several has a list; bytes stay bytes. One without values is left
    out.
    """

    names: list[str]
    values: dict[str, bytes | int | float | list[bytes | int | float]]


def read_features(record: ByteSource, largest: int) -> Features:
    """Read the features of a record, except values of more than ``largest`` bytes.

    Raises:
        IndexingError: the record is no ``tf.train.Example``.
        SourceError: a feature has two values, or values of several types.
    """
    found, left, names = Features([], {}), iter(range(_MOST_FIELDS)), set[str]()
    for key, entry in _entries(record, largest, left):
        fields = list(_fields(record, entry, _VALUE, left))
        name = key.decode("utf-8", "replace")
        if name in names or len(fields) > 1:  # which value counts is a rule of Protocol Buffers that few know
            raise SourceError(f"the record has two values for the feature {name!r}", record.name)
        names.add(name)
        values = fields[0] if fields else range(0)
        found.names.append(name)
        if len(values) > largest:
            continue
        listed = _values(MemorySource(record.read(values.start, len(values)), record.name), left)
        if listed:
            found.values[name] = listed[0] if len(listed) == 1 else listed
    return found


def _entries(record: ByteSource, largest: int, left: Iterator[int]) -> Iterator[tuple[bytes, range]]:
    """Yield the key of each entry in the map of features, truncated to ``largest`` bytes, and where the entry is."""
    for features in _fields(record, range(record.size), _FEATURES, left):
        for entry in _fields(record, features, _FEATURE, left):
            key = b""
            for field in _fields(record, entry, _KEY, left):
                key = record.read(field.start, min(len(field), largest))
            yield key, entry


def _values(feature: ByteSource, left: Iterator[int]) -> list[bytes | int | float]:
    """Return the values of a Feature: of its bytes_list, float_list or int64_list, whose numbers may be packed."""
    listed: list[bytes | int | float] = []
    kinds = 0
    for kind in (_BYTES_LIST, _FLOAT_LIST, _INT64_LIST):
        there = list(_fields(feature, range(feature.size), kind, left))
        kinds += bool(there)
        for each in there:
            for wire_type, value in _all_fields(feature, each, _BYTES, left):
                data = feature.read(value.start, len(value))
                if kind == _BYTES_LIST:
                    listed.append(data)
                elif kind == _FLOAT_LIST:
                    listed += struct.unpack(f"<{len(data) // 4}f", data[: len(data) // 4 * 4])
                else:
                    at = 0
                    while at < len(data):
                        number, at = _varint(data, at, value.start, feature)
                        listed.append(number - (number >> 63 << 64))
                        if wire_type == _VARINT:
                            break
    if kinds > 1:
        raise SourceError("the record has a feature with values of several types", feature.name)
    return listed


def find_feature(record: ByteSource, name: str) -> range:
    """Find a feature's bytes in the record by skipping all others."""
    names: list[str] = []
    wanted: range | None = None
    left = iter(range(_MOST_FIELDS))
    for key, entry in _entries(record, len(name) * 4 + 1, left):
        names.append(key.decode("utf-8", "replace"))
        if key == name.encode():
            if wanted is not None:
                raise SourceError(f"the record has two values for the feature {name!r}", record.name)
            wanted = entry
    if wanted is None:
        raise SourceError(f"the record has no feature {name!r}{near_names(name, names)}", record.name)
    values = [
        value
        for feature in _fields(record, wanted, _VALUE, left)
        for each in _fields(record, feature, _BYTES_LIST, left)
        for value in _fields(record, each, _BYTES, left)
    ]
    if len(values) != 1:
        raise SourceError(f"feature {name!r} must have exactly one bytes value, has {len(values)}", record.name)
    return values[0]


def _fields(record: ByteSource, message: range, wanted: int, left: Iterator[int]) -> Iterator[range]:
    """Yield where the length-delimited fields of a number are, in a message at this position in the record."""
    return (value for kind, value in _all_fields(record, message, wanted, left) if kind == _LENGTH_DELIMITED)


def _all_fields(record: ByteSource, message: range, wanted: int, left: Iterator[int]) -> Iterator[tuple[int, range]]:
    """Yield the wire types of all fields of a number, and where their values are; ``left`` counts down the fields."""
    start, stop = message.start, message.stop
    while start < stop:
        if next(left, None) is None:
            fault = f"it has more than {_MOST_FIELDS} fields"
            raise IndexingError(f"the record is not a tf.train.Example: {fault}", record.name)
        head = record.read(start, min(2 * _LONGEST_VARINT, stop - start))
        tag, at = _varint(head, 0, start, record)
        wire_type = tag & 7
        if not tag >> 3:  # as in zeros
            raise IndexingError(f"the record is not a tf.train.Example: byte {start} begins no field", record.name)
        if wire_type in _SIZE_OF_WIRE_TYPE:
            size = _SIZE_OF_WIRE_TYPE[wire_type]
        elif wire_type in (_VARINT, _LENGTH_DELIMITED):
            number, after = _varint(head, at, start, record)
            size = number if wire_type == _LENGTH_DELIMITED else after - at
            at = after if wire_type == _LENGTH_DELIMITED else at
        else:
            raise IndexingError(f"the record is not a tf.train.Example: byte {start} begins no field", record.name)
        value = range(start + at, start + at + size)
        if value.stop > stop:
            raise IndexingError(
                f"the record is not a tf.train.Example: the field at byte {start} is cut off", record.name
            )
        if tag >> 3 == wanted:
            yield wire_type, value
        start = value.stop


def _varint(data: bytes, at: int, start: int, record: ByteSource) -> tuple[int, int]:
    """Read a number with seven bits per byte, lowest first, and return it and where it ends."""
    value = 0
    for place in range(at, min(at + _LONGEST_VARINT, len(data))):
        value |= (data[place] & 0x7F) << 7 * (place - at)
        if value >> 64:
            break
        if not data[place] & 0x80:
            return value, place + 1
    raise IndexingError(f"the record is not a tf.train.Example: byte {start} begins no field", record.name)
