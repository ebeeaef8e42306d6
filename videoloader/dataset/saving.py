"""Saves data sets as Arrow files, whose columns are mapped into memory that all processes of a machine share."""

from __future__ import annotations

import base64
import json
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from videoloader import errors as known_errors
from videoloader.dataset.columns import ABSENT, Column, JsonColumn, PackedStrings, constant, plain
from videoloader.dataset.row_frames import OF_MODES, RowFrames
from videoloader.dataset.table import ARRAYS, EntryTable
from videoloader.errors import ConfigurationError, SourceError, VideoLoaderError, needs, system_reason
from videoloader.indexing.sources.regular_file import open_regular, replacing
from videoloader.indexing.store.columns import LONGEST
from videoloader.live_line import counted_live

_FORMAT, _VERSION = b"videoloader.VideoDataset", 1
# What an Arrow file begins with, padded to eight bytes; the same messages as those of a stream follow.
_MAGIC = b"ARROW1\0\0"
_OTHER, _FRAMES = "columns.", "frames."
# Extensions of tables and index stores, under which no data set is saved.
_OTHER_FILES = (".csv", ".db", ".json", ".jsonl", ".parquet", ".tsv", ".txt", ".xlsx")
# Errors of Python for messages and columns that are damaged, or not there.
_OF_DAMAGE = (struct.error, LookupError, TypeError, ValueError, AttributeError, RecursionError, StopIteration)
_NEEDS = "saved data sets need pyarrow: pip install 'videoloader[parquet]'"


def write_rows(path: str, table: EntryTable, class_names: Sequence[str], left_out: Sequence[tuple[str, str]]) -> None:
    """Write the fields of a ``VideoDataset`` to a file, and replace an existing one atomically.

    Raises:
        SourceError: it cannot be written.
        ConfigurationError: pyarrow is not installed, a column holds values that cannot be saved, or the extension is
            that of another kind of file.
    """
    if (ending := os.path.splitext(path)[1].lower()) in _OTHER_FILES:
        raise ConfigurationError(f"save writes an Arrow file, not one of {ending}: name it data.arrow", path)
    with needs(_NEEDS, path):
        import pyarrow
    if others := [name for name in table.columns if not isinstance(name, str)]:
        raise ConfigurationError(f"column {others[0]!r} cannot be saved: give columns names that are text", path)
    known = table.frames
    columns: dict[str, Column] = {"path": table.path, **{name: getattr(table, name) for name in ARRAYS}}
    columns |= {_OTHER + name: _as_text(column, name, table) for name, column in table.columns.items()}
    columns |= {_FRAMES + name: column for name, column in known.columns.items()} if known else {}
    constants = {name: plain(column[:1])[0] for name, column in columns.items() if _is_constant(column)}
    failed = known.errors.items() if known else ()
    about = {
        "version": _VERSION,
        "rows": len(table),
        "constants": constants,
        "json": [name for name, column in columns.items() if isinstance(column, JsonColumn)],
        "class_names": list(class_names),
        "left_out": list(left_out),
        "content": known.content if known else None,
        "errors": [(row, type(error).__name__, error.message) for row, error in failed],
    }
    kept = {name: column for name, column in columns.items() if name not in constants}
    columns_done = counted_live("saving columns", kept.items(), len(kept))
    arrays = {name: _to_arrow(column) for name, column in columns_done}
    try:
        batch = pyarrow.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        schema = batch.schema.with_metadata({_FORMAT: json.dumps(about).encode()})
        with replacing(path) as file, pyarrow.ipc.new_file(file, schema) as writer:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    except (OSError, UnicodeEncodeError) as error:  # the second of a column's name with half a surrogate
        raise SourceError(f"the data set cannot be saved ({system_reason(error)})", path) from None


def map_rows(path: str) -> tuple[EntryTable, Sequence[str], list[tuple[str, str]]]:
    """Map a file into memory, and return the fields that ``write_rows`` wrote.

    Raises:
        SourceError: it cannot be read.
        ConfigurationError: pyarrow is not installed, or the file is not a saved data set, or a later version saved it.
    """
    with needs(_NEEDS, path):
        import pyarrow
    try:
        with open(path, "rb", opener=open_regular) as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        file = pyarrow.ipc.open_file(pyarrow.py_buffer(mapped))
        about = json.loads((file.schema.metadata or {})[_FORMAT])
        if about["version"] != _VERSION:
            wanted = f"this videoloader reads version {_VERSION}: save it again"
            raise ConfigurationError(f"is a saved data set of version {about['version']}; {wanted}", path)
        # The batch by its place in the file, not by what the footer says, so that the one looked at is the one read.
        messages = pyarrow.ipc.MessageReader.open_stream(pyarrow.py_buffer(mapped)[len(_MAGIC) :])
        messages.read_next_message()  # the schema
        message = messages.read_next_message()
        if _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("it is compressed")
        batch = pyarrow.ipc.read_record_batch(message, file.schema)
        columns: dict[str, Column] = {
            name: constant(value, about["rows"]) for name, value in about["constants"].items()
        }
        columns |= {name: _of_arrow(batch.column(name)) for name in batch.schema.names}
        return _read(columns, about)
    except OSError as error:
        if error.errno is None:
            raise ConfigurationError(f"is not a saved data set ({error})", path) from None
        raise SourceError(f"the data set cannot be read ({error.strerror})", path) from None
    except (pyarrow.ArrowException, *_OF_DAMAGE) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"is not a saved data set, or is damaged ({error})", path) from None


def _is_compressed(message: bytes) -> bool:
    """Whether the buffers of a record batch are compressed, so that they would not be mapped, but unpacked.

    ``save`` compresses none. The bytes are a ``Message`` as in format/Message.fbs of Apache Arrow, whose third field is
    a ``RecordBatch``, whose fourth field is there if it is compressed. A table of FlatBuffers begins with the distance
    to the list of the places of its fields.
    """

    def field(table: int, number: int) -> int:
        (distance,) = struct.unpack_from("<i", message, table)
        size, *places = struct.unpack_from(f"<HH{number + 1}H", message, table - distance)
        return table + places[-1] if 4 + 2 * number < size and places[-1] else 0

    batch = field(struct.unpack_from("<I", message)[0], 2)
    return not batch or field(batch + struct.unpack_from("<I", message, batch)[0], 3) != 0


def _read(columns: dict[str, Any], about: Mapping[str, Any]) -> tuple[EntryTable, Sequence[str], list[tuple[str, str]]]:
    path = columns["path"]
    if not all(isinstance(columns[name], PackedStrings) for name in ("path", *about["json"])):
        raise ValueError("numbers in place of text")
    columns |= {name: JsonColumn(columns[name]) for name in about["json"]}
    others = {name.removeprefix(_OTHER): each for name, each in columns.items() if name.startswith(_OTHER)}
    numbers = {name.removeprefix(_FRAMES): each for name, each in columns.items() if name.startswith(_FRAMES)}
    if any(len(column) != about["rows"] for column in columns.values()):
        raise ValueError("columns of several lengths")
    types = {"in_pts": np.bool_, "start_seconds": np.float64, "stop_seconds": np.float64}
    own = {name: columns[name] for name in ARRAYS}
    if any(each.dtype != types.get(name, np.int64) for name, each in [*own.items(), *numbers.items()]):
        raise ValueError("numbers of other types")
    failed = {row: _error(kind, message, path[row]) for row, kind, message in about["errors"]}
    frames = None
    if about["content"] is not None:
        first, stop, count, *_ = (numbers[name] for name in ("first", "stop", "frames", *OF_MODES))
        if not ((first >= 0) & (first <= stop) & (stop <= count) & (count <= LONGEST)).all():
            raise ValueError("ranges of frames that no video has")
        frames = RowFrames(about["content"], numbers, failed)
    table = EntryTable(path, **own, columns=others, frames=frames)
    return table, about["class_names"], [(row, reason) for row, reason in about["left_out"]]


def _error(kind: str, message: str, source: str) -> VideoLoaderError:
    found = getattr(known_errors, kind, None)
    if isinstance(found, type) and issubclass(found, VideoLoaderError):
        return found(message, source)
    return VideoLoaderError(message, source)


def _is_constant(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.strides == (0,) and len(column) > 0


def _as_text(column: Column, name: str, table: EntryTable) -> Column:
    """Encode a column that is neither text nor numbers as JSON."""
    if not isinstance(column, list):
        return column
    texts = []
    for row, value in enumerate(column):
        try:
            texts.append(encode_cell(value))
        except (TypeError, ValueError, RecursionError) as error:
            wanted = "text, numbers, bytes, and lists and dicts of text and numbers are saved"
            raise ConfigurationError(f"column {name!r} cannot be saved ({error}): {wanted}", table.path[row]) from None
    return JsonColumn(PackedStrings(texts))


def encode_cell(value: Any) -> str:
    """A value as text: JSON, or ``=`` and Base64 for bytes; empty for ``ABSENT``.

    Raises:
        TypeError, ValueError: the value would not be read back unchanged.
    """
    if value is ABSENT:
        return ""
    if type(value) is bytes:
        return f"={base64.b64encode(value).decode()}"
    text = json.dumps(value, allow_nan=True)
    if not _same(json.loads(text), value):
        raise TypeError(f"a value of type {type(value).__name__}")
    return text


def _same(one: object, other: object) -> bool:
    """Whether two values, and all values in them, are equal and of the same type."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    return one == other or (one != one and other != other)


def _to_arrow(column: Column) -> Any:
    import pyarrow

    if isinstance(column, JsonColumn):
        column = column.texts
    if isinstance(column, PackedStrings):
        text, bounds = column.utf8()
        buffers = [None, pyarrow.py_buffer(bounds), pyarrow.py_buffer(text)]
        return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(column), buffers)
    numbers = np.ascontiguousarray(column)
    return pyarrow.array(numbers.view(np.int8) if numbers.dtype == np.bool_ else numbers)


def _of_arrow(values: Any) -> Column:
    """An Arrow array as a column, in the same memory.

    Raises:
        ValueError: the array is damaged.
    """
    import pyarrow

    if values.type == pyarrow.large_binary():
        _, bounds, text = values.buffers()
        starts = np.frombuffer(bounds, np.int64, len(values) + 1)
        size = text.size if text else 0
        if starts[0] or (np.diff(starts) < 0).any() or starts[-1] > size:
            raise ValueError("text offsets are outside the file")
        return PackedStrings.of_utf8(memoryview(text) if text else b"", starts)
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=True)
    return numbers.view(np.bool_) if numbers.dtype == np.int8 else numbers
