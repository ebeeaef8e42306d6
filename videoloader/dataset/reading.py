"""Reads table files, in the format that their extension says."""

from __future__ import annotations

from collections.abc import Sequence

from videoloader.dataset.parquet import read_parquet
from videoloader.dataset.raw_table import RawTable
from videoloader.dataset.text_tables import read_delimited, read_json_lines
from videoloader.errors import ConfigurationError, enough_memory

_JSON_LINES, _PARQUET = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
TABLE_ENDINGS = (".csv", ".tsv", *_JSON_LINES, *_PARQUET)


def read_table(source: str, header: Sequence[str] | None = None, separator: str | None = None) -> RawTable:
    """The rows of a table file: JSON lines or Parquet by extension, otherwise delimited text.

    Args:
        source: path of the file.
        header, separator: as in ``read_delimited``.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: it is not such a table (the message has the line), or it is Parquet and pyarrow is not
            installed.
        NoMemoryError: it does not fit into memory.
    """
    name = source.lower()
    with enough_memory("the table", source, "leave out columns, or split the table"):
        if header is not None or separator is not None:
            if name.endswith((*_JSON_LINES, *_PARQUET)):
                told = "header and separator are for text tables, not for JSON lines or Parquet"
                raise ConfigurationError(told, source)
            return read_delimited(source, header, separator)
        if name.endswith(_JSON_LINES):
            return read_json_lines(source)
        return read_parquet(source) if name.endswith(_PARQUET) else read_delimited(source)
