"""Rows of a text file with a separator: CSV (RFC 4180), TSV, or with semicolons."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from videoloader.dataset.columns import Column, PackedStrings, join
from videoloader.dataset.raw_table import ROWS_AT_ONCE, RawTable, lines
from videoloader.errors import ConfigurationError

if TYPE_CHECKING:
    from _csv import Reader

_SEPARATORS = ",\t;"


def read_delimited(source: str) -> RawTable:
    """The rows under the header of a UTF-8 file; the separator is the one that is most in the header.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: it is no such table, with the line.
    """
    line_of = array("q")
    first = next(lines(source), "")
    try:
        reader = csv.reader(lines(source), delimiter=max(_SEPARATORS, key=first.count), strict=True)
        header = [name.strip() for name in next(filter(None, reader), [])]
        if len(set(header)) < len(header):
            raise ConfigurationError(f"the header has a name twice: {header}", source)
        parts: list[list[Column]] = [[] for _ in header]
        rows = _rows(reader, line_of, len(header), source)
        while chunk := list(islice(rows, ROWS_AT_ONCE)):
            for part, values in zip(parts, zip(*chunk, strict=True), strict=True):
                part.append(PackedStrings(values))
    except csv.Error as error:
        raise ConfigurationError(f"after line {line_of[-1] if line_of else 0}: {error}", source) from None
    if not line_of:
        raise ConfigurationError("the table has no rows under a header", source)
    columns = {name: join(part) for name, part in zip(header, parts, strict=True)}
    return RawTable(source, columns, lambda row: f"line {line_of[row]}")


def _rows(reader: Reader, line_of: array[int], width: int, source: str) -> Iterator[list[str]]:
    """The rows that are not blank; the line each ends at goes to ``line_of``."""
    for cells in filter(None, reader):  # a blank line has no cells
        if len(cells) != width:
            raise ConfigurationError(f"line {reader.line_num}: {len(cells)} values, header of {width}", source)
        line_of.append(reader.line_num)
        yield cells
