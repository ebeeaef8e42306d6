"""Reads the rows of an Apache Parquet file."""

from __future__ import annotations

from typing import Any

import numpy as np

from videoloader.dataset.columns import Column, PackedStrings, join, pack
from videoloader.dataset.raw_table import ROWS_AT_ONCE, RawTable
from videoloader.errors import ConfigurationError, SourceError, needs
from videoloader.indexing.sources.regular_file import open_regular


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
        with open(source, "rb", opener=open_regular) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            header = file.schema_arrow.names
            if len(set(header)) < len(header):
                raise ConfigurationError(f"the table has two columns of one name: {header}", source)
            parts = [list(map(arrow_column, batch.columns)) for batch in file.iter_batches(ROWS_AT_ONCE)]
    # Arrow's errors are among these; a fault inside a file is an OSError without a number.
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        if isinstance(error, ConfigurationError):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            raise SourceError(f"the table cannot be read ({error})", source) from error
        raise ConfigurationError(f"cannot be read as a Parquet table ({error})", source) from None
    if not any(parts):
        raise ConfigurationError("the table has no rows", source)
    columns = {name: join(part) for name, part in zip(header, zip(*parts, strict=True), strict=True)}
    pyarrow.default_memory_pool().release_unused()
    return RawTable(source, columns, lambda row: f"row {row + 1}")


def arrow_column(values: Any) -> Column:
    """An Arrow array as a column; strings, and numbers without gaps, are not turned into objects."""
    import pyarrow

    kinds = pyarrow.types
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        return pack(values.to_pylist())
    if kinds.is_string(values.type) or kinds.is_large_string(values.type):
        _, bounds, text = values.cast(pyarrow.large_string()).buffers()
        bounds = np.frombuffer(bounds, np.int64, len(values) + 1, values.offset * 8)
        return PackedStrings.of_utf8(bytes(memoryview(text)[bounds[0] : bounds[-1]]) if text else b"", bounds)
    if kinds.is_signed_integer(values.type):
        return np.array(values.to_numpy(zero_copy_only=False), np.int64)
    if kinds.is_float64(values.type):
        return np.array(values.to_numpy(zero_copy_only=False))
    return pack(values.to_pylist())
