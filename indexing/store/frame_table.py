"""Pack a VideoIndex into bytes: a blob of its own columns, and a record that similar videos share.

The record holds every field that is no array (codec, configuration, size, …) except the frame rate and the start time.
Many videos share one, so a store keeps each record once. The blob holds these two and the arrays. Each array is stored
as its difference from what the arrays before it predict (a packet starts where the one before ends), packed by
``columns``: about 3 to 4 bytes per frame.

Blob: version, CRC-32 (of the record and the rest, little-endian), which columns were predicted (bit mask), the frame
rate's numerator and denominator, the start time, the columns in the order that the record gives.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.store.columns import Integers, pack_column, pack_number, unpack_column, unpack_number
from videoloader.indexing.stream_info import StreamInfo, TransportLayout

BLOB_VERSION = 2
_HEAD = 5

Columns = Mapping[str, npt.NDArray[Any]]


class PackedIndex(NamedTuple):
    """``record`` is UTF-8 JSON, the same for many videos; ``blob`` is this video's own."""

    record: bytes
    blob: bytes


def _offsets_without_gaps(columns: Columns) -> Integers:
    sizes = columns["packet_size"].astype(np.int64)
    ends = np.cumsum(sizes)
    ends -= sizes
    return ends


def _packet_times_of_frames(columns: Columns) -> Integers:
    """Predict that each packet has the time of its frame, or without a frame the time of the packet before it."""
    packets, times = columns["frame_packet"], columns["frame_pts"]
    count = len(columns["packet_size"])
    predicted = np.zeros(count, np.int64)
    predicted[packets] = times
    if len(packets) != count:
        has_frame = np.zeros(count, np.bool_)
        has_frame[packets] = True
        predicted = predicted[np.maximum.accumulate(np.where(has_frame, np.arange(count), 0))]
    return predicted


_PREDICTIONS: dict[str, Callable[[Columns], Integers]] = {
    "packet_offset": _offsets_without_gaps,
    "packet_pts": _packet_times_of_frames,
}


# Matched against annotations as they are written, since what numpy makes of NDArray differs between its versions.
_ARRAY = re.compile(r"npt\.NDArray\[np\.(\w+)\]")
# The dtype of each array of a VideoIndex, predicted arrays last.
_TYPES: dict[str, np.dtype[Any]] = {
    field.name: np.dtype(getattr(np, array[1]))
    for field in sorted(fields(VideoIndex), key=lambda field: field.name in _PREDICTIONS)
    if (array := _ARRAY.fullmatch(str(field.type)))
}

# JSON has no such values. They are written as an object with the type's name as its only key.
_FROM_JSON: dict[str, Callable[[Any], object]] = {
    "Fraction": lambda pair: Fraction(*pair),
    "bytes": base64.b64decode,
    "StreamInfo": lambda values: StreamInfo(**values),
    "TransportLayout": lambda values: TransportLayout(**values),
}


def _to_json(value: object) -> object:
    if isinstance(value, Fraction):
        return {"Fraction": [value.numerator, value.denominator]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, StreamInfo | TransportLayout):
        return {type(value).__name__: {field.name: getattr(value, field.name) for field in fields(value)}}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} has no place in an index")


def _with_tuple(value: object) -> object:
    return tuple(map(_with_tuple, value)) if isinstance(value, list) else value


def _from_json(value: dict[str, Any]) -> object:
    values = {name: _with_tuple(content) for name, content in value.items()}
    (name, *others) = values
    return values if others or name not in _FROM_JSON else _FROM_JSON[name](values[name])


@lru_cache(maxsize=256)
def _read_record(record: bytes) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of the columns, and the values of the fields that are no arrays."""
    content = json.loads(record, object_hook=_from_json)
    names, common = content["columns"], content["index"]
    _check_types(common, VideoIndex)
    _check_types(vars(common["stream"]), StreamInfo)
    return names, common


def _check_types(values: Mapping[str, Any], kind: type) -> None:
    """Raise ValueError unless each value has its field's declared type."""
    types = _types_of(kind)
    for name, value in values.items():
        if not _is_of(value, types[name]):
            raise ValueError(f"{name} is no {types[name]}")


_types_of = cache(get_type_hints)


def _is_of(value: object, kind: Any) -> bool:
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return value in parts
    if get_origin(kind) is not tuple:
        return any(_is_of(value, part) for part in parts) if parts else type(value) is kind
    if not isinstance(value, tuple) or (parts[-1] is not ... and len(value) != len(parts)):
        return False
    return all(_is_of(each, parts[0]) for each in value)  # all tuples here have elements of one type


def pack_index(index: VideoIndex) -> PackedIndex:
    """Return the index as bytes, from which everything except ``source`` can be restored.

    Examples:
        >>> packed = pack_index(index)
        >>> len(packed.blob) / len(index)  # bytes a frame
        3.1
    """
    rate = index.stream.frame_rate
    common = {
        field.name: getattr(index, field.name)
        for field in fields(index)
        if field.name not in _TYPES and field.name not in ("source", "start_time", "times", "state")
    }
    common["stream"] = replace(index.stream, frame_rate=Fraction(0))
    record = json.dumps({"columns": list(_TYPES), "index": common}, default=_to_json, separators=(",", ":")).encode()
    predicted = 0
    columns: dict[str, npt.NDArray[Any]] = {}
    packed = []
    for number, name in enumerate(_TYPES):
        columns[name] = getattr(index, name)
        values = columns[name].astype(np.int64)
        if name in _PREDICTIONS and len(values) and (values != values[0]).any():
            values = values - _PREDICTIONS[name](columns)
            predicted |= 1 << number
        packed.append(pack_column(values))
    numbers = (predicted, rate.numerator, rate.denominator, index.start_time)
    rest = b"".join(map(pack_number, numbers)) + b"".join(packed)
    check = zlib.crc32(rest, zlib.crc32(record))
    return PackedIndex(record, bytes([BLOB_VERSION]) + check.to_bytes(4, "little") + rest)


def unpack_index(packed: PackedIndex, source: str) -> VideoIndex:
    """Return the index that was given to ``pack_index``.

    Args:
        packed: the bytes of the index.
        source: name of the video, for messages; the bytes do not have it, since files are moved.

    Raises:
        IndexingError: the bytes are damaged, or made by a later version of this library.
    """
    record, blob = packed
    if not blob or blob[0] != BLOB_VERSION:
        raise IndexingError("its stored index is damaged or of another version of this library", source)
    if zlib.crc32(memoryview(blob)[_HEAD:], zlib.crc32(record)) != int.from_bytes(blob[1:_HEAD], "little"):
        raise IndexingError("its stored index is damaged: the checksum does not fit", source)
    try:
        names, common = _read_record(record)
        return _unpack(names, common, blob, source)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise IndexingError(f"its stored index is not valid ({error})", source) from error


def stored_index(record: object, blob: object, frames: object, source: str) -> VideoIndex:
    """Return the index of a row of a store, which may hold anything.

    Args:
        record, blob: fields of a ``PackedIndex``, as the row has them; None if it has none.
        frames: number of frames in its columns.
        source: name of the video, for messages.

    Raises:
        IndexingError: the row is damaged.
    """
    try:
        if not isinstance(record, bytes) or not isinstance(blob, bytes):
            raise IndexingError("its row in the index store is damaged: it has no index")
        index = unpack_index(PackedIndex(record, blob), source)
        if len(index) != frames:
            raise IndexingError(f"its row in the index store is damaged: {frames} frames of {len(index)}")
        _check_sense(index)
        return index
    except IndexingError as error:
        raise IndexingError(f"{error.message}. build_store(…, retry=True) indexes the video again", source) from error


def _check_sense(index: VideoIndex) -> None:
    """Raise IndexingError unless a stored index has numbers that a video can have, whoever wrote it."""
    stream, packets = index.stream, index.packet_size
    numbers = [each for each in vars(stream).values() if isinstance(each, int)]
    wrong = {
        "numbers of its stream": not 0 <= min(numbers) <= max(numbers) < 1 << 31,
        "a time base or shape of pixels": min(stream.time_base.numerator, stream.sample_aspect_ratio.numerator) <= 0,
        "packets": not len(packets) or min(packets.min(), index.packet_offset.min()) < 0,
        "starts": any(not 0 <= each < len(packets) for pair in index.other_starts for each in pair),
    }
    if told := [what for what, is_wrong in wrong.items() if is_wrong]:
        raise IndexingError(f"its stored index is not valid (impossible {told[0]})", index.source)


def _unpack(names: tuple[str, ...], common: Mapping[str, Any], blob: bytes, source: str) -> VideoIndex:
    predicted, at = unpack_number(blob, _HEAD)
    numerator, at = unpack_number(blob, at)
    denominator, at = unpack_number(blob, at)
    start_time, at = unpack_number(blob, at)
    columns: dict[str, npt.NDArray[Any]] = {}
    for number, name in enumerate(names):
        values, at = unpack_column(blob, at)
        if predicted >> number & 1:
            values += _PREDICTIONS[name](columns)
        columns[name] = values.astype(_TYPES[name], copy=False)
    _check(columns, len(common["stream"].codec_configs))
    if at != len(blob):
        raise ValueError(f"{len(blob) - at} bytes too many")
    stream = replace(common["stream"], frame_rate=Fraction(numerator, denominator))
    return VideoIndex(source=source, **{**common, **columns, "stream": stream, "start_time": start_time})


def _check(columns: Columns, configs: int) -> None:
    packets, frames = columns["packet_size"], columns["frame_packet"]
    for name, values in columns.items():
        if len(values) != len(packets if name.startswith("packet_") else frames):
            raise ValueError(f"{name} has {len(values)} values")
    if len(frames) and not 0 <= frames.min() <= frames.max() < len(packets):
        raise ValueError("frames of packets that are not there")
    if len(packets) and columns["packet_config"].max() >= configs:
        raise ValueError("configuration records that are not there")
