"""Reads the rows of an Apache Parquet file."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from videoloader.dataset.columns import Column, PackedStrings, join, pack
from videoloader.dataset.raw_table import ROWS_AT_ONCE, RawTable, beyond_table, check_table
from videoloader.errors import ConfigurationError, SourceError, needs
from videoloader.indexing.limits import current_limits
from videoloader.indexing.sources.regular_file import reading

_OBJECT = 64  # bytes, about
# Arrow then starts no threads. Where the system allows no more of them, Arrow 26 may end the process at its exit.
_ALONE = {"pre_buffer": False}


def read_parquet(source: str) -> RawTable:
    """The rows of a file.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: pyarrow is not installed, or rejects the file.
    """
    with needs("needs pyarrow: pip install 'videoloader[parquet]'", source):
        import pyarrow
        import pyarrow.parquet
    try:
        with reading(source, "rb") as opened:
            about = pyarrow.parquet.read_metadata(opened)
            _check_columns(pyarrow.parquet.ParquetFile(opened, metadata=about, **_ALONE).reader)
            texts, size = _plan(about)
            check_table(source, about.num_columns, size)
            file = pyarrow.parquet.ParquetFile(opened, metadata=about, read_dictionary=texts, **_ALONE)
            header = file.schema_arrow.names
            if len(set(header)) < len(header):
                raise ConfigurationError(f"the table has two columns of one name: {header}", source)
            parts: list[list[Column]] = []
            groups = list(range(file.num_row_groups))
            # Arrow cannot join nested texts of several dictionaries, and each group has its own.
            together = [[group] for group in groups] if any("." in text for text in texts) else [groups]
            read = partial(file.iter_batches, ROWS_AT_ONCE, use_threads=False)
            for batch in chain.from_iterable(map(read, together)):
                size += sum(_size_of_texts(values, source) for values in batch.columns)
                check_table(source, len(header), size)
                parts.append([arrow_column(*each, source) for each in zip(header, batch.columns, strict=True)])
                size += sum(_OBJECT * len(column) for column in parts[-1] if isinstance(column, list))
    except (ConfigurationError, MemoryError):
        raise
    # Arrow's errors are among these; a fault inside a file is an OSError without a number.
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise SourceError(f"the table cannot be read ({error})", source) from error
        raise ConfigurationError(f"cannot be read as a Parquet table ({error})", source) from None
    if not any(parts):
        raise ConfigurationError("the table has no rows", source)
    columns = {name: join(part) for name, part in zip(header, zip(*parts, strict=True), strict=True)}
    pyarrow.default_memory_pool().release_unused()
    return RawTable(source, columns, lambda row: f"row {row + 1}")


def _check_columns(reader: Any) -> None:
    """Make Arrow check what the footer says about each column.

    What it says about sizes may contradict the column's type. Arrow checks that whenever it looks at a column. Where
    it reads values, it raises an error; where it gives the metadata to Python, it ends the process (26.0.1). So it
    reads no values of each group first.
    """
    for group in range(reader.num_row_groups if reader.column_paths else 0):
        next(reader.iter_batches(0, [group], use_threads=False), None)


def _plan(about: Any) -> tuple[list[str], int]:
    """The columns whose distinct texts Arrow tells apart, and the bytes that values of fixed length take.

    A dictionary of Parquet stores a text once for any number of rows, so texts are counted before they are repeated.
    """
    groups = list(map(about.row_group, range(about.num_row_groups)))
    texts, size = [], 0
    for place in range(about.num_columns):
        leaf, chunks = about.schema.column(place), [group.column(place) for group in groups]
        size_of_one = _OBJECT if leaf.max_repetition_level else max(8, leaf.length)
        size += size_of_one * sum(chunk.num_values for chunk in chunks)
        delta = any(name.startswith("DELTA") for chunk in chunks for name in chunk.encodings)  # Arrow tells none apart
        if leaf.physical_type == "BYTE_ARRAY" and not delta:
            texts.append(leaf.path)
    return texts, size


def _size_of_texts(values: Any, source: str) -> int:
    """The bytes that values of any length take in a column.

    Raises:
        ConfigurationError: a text is longer than the limit.
    """
    import pyarrow.compute

    kinds = pyarrow.types
    if kinds.is_nested(values.type):
        parts = [values.keys, values.items] if kinds.is_map(values.type) else values.flatten()
        return sum(_size_of_texts(part, source) for part in (parts if isinstance(parts, list) else [parts]))
    words = values.dictionary if kinds.is_dictionary(values.type) else values
    if kinds.is_string(words.type) or kinds.is_large_string(words.type):
        longest = pyarrow.compute.max(pyarrow.compute.utf8_length(words)).as_py() or 0
        if longest > current_limits().cell_characters:
            raise ConfigurationError(beyond_table("cell_characters", "a value", "characters"), source)
    if words is values:
        return 0 if kinds.is_primitive(values.type) else int(values.nbytes)
    values.validate(full=True)  # when it reads a file, Arrow trusts that each row names one of the texts
    lengths = pyarrow.compute.binary_length(words).to_numpy(zero_copy_only=False)
    return int(lengths[values.indices.drop_null().to_numpy()].sum())


def arrow_column(name: str, values: Any, source: str) -> Column:
    """An Arrow array as a column; strings, and numbers without gaps, are not turned into objects.

    Raises:
        ConfigurationError: a value, such as a date in the year 10000, has no like in Python.
    """
    import pyarrow

    kinds = pyarrow.types
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    whole = not values.null_count
    if whole and (kinds.is_string(values.type) or kinds.is_large_string(values.type)):
        _, bounds, text = values.cast(pyarrow.large_string()).buffers()
        bounds = np.frombuffer(bounds, np.int64, len(values) + 1, values.offset * 8)
        return PackedStrings.of_utf8(bytes(memoryview(text)[bounds[0] : bounds[-1]]) if text else b"", bounds)
    if whole and kinds.is_signed_integer(values.type):
        return np.array(values.to_numpy(zero_copy_only=False), np.int64)
    if whole and kinds.is_float64(values.type):
        return np.array(values.to_numpy(zero_copy_only=False))
    try:
        return pack(values.to_pylist())
    except (OverflowError, ValueError) as error:
        told = f"column {name!r} has a {values.type} that Python cannot hold ({error})"
        raise ConfigurationError(f"{told}: leave the column out, or write it as integers or text", source) from None
