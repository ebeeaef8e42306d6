"""Tables of videos in files, by the ending of their names."""

from __future__ import annotations

from videoloader.dataset.parquet import read_parquet
from videoloader.dataset.raw_table import RawTable
from videoloader.dataset.text_tables import read_delimited, read_json_lines

_JSON_LINES, _PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
TABLE_ENDINGS = (".csv", ".tsv", *_JSON_LINES, *_PARQUET)


def read_table(source: str) -> RawTable:
    """The rows of a table: JSON lines, Parquet, or whatever else it is called, text with a separator.

    Raises:
        SourceError: it cannot be read.
        ConfigurationError: it is no such table, with the line; or Parquet, and pyarrow is not installed.
    """
    name = source.lower()
    if name.endswith(_JSON_LINES):
        return read_json_lines(source)
    return read_parquet(source) if name.endswith(_PARQUET) else read_delimited(source)
