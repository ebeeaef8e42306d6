"""Rows of text files: with a separator (CSV of RFC 4180, TSV, or with semicolons), or a JSON object in each line."""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from videoloader.dataset.columns import ABSENT, Column, PackedStrings, join, pack
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
        rows, parts = _rows(reader, line_of, len(header), source), list[list[Column]]()
        while chunk := list(islice(rows, ROWS_AT_ONCE)):
            parts.append([PackedStrings(values) for values in zip(*chunk, strict=True)])
    except csv.Error as error:
        raise ConfigurationError(f"after line {line_of[-1] if line_of else 0}: {error}", source) from None
    if not line_of:
        raise ConfigurationError("the table has no rows under a header", source)
    columns = {name: join(part) for name, part in zip(header, zip(*parts, strict=True), strict=True)}
    return RawTable(source, columns, lambda row: f"line {line_of[row]}")


def read_json_lines(source: str) -> RawTable:
    """The objects in the lines of a file (https://jsonlines.org); a name that only some have is absent in other rows.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: a line is no JSON object, with its number.
    """
    line_of = array("q")
    parts: dict[str, list[Column]] = {}
    rows = _objects(lines(source), line_of, source)
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        before = len(line_of) - len(chunk)
        for name in dict.fromkeys(name for row in chunk for name in row if name not in parts):
            parts[name] = [[ABSENT] * before] if before else []
        for name, part in parts.items():
            part.append(pack([row.get(name, ABSENT) for row in chunk]))
    if not line_of:
        raise ConfigurationError("the table has no rows", source)
    return RawTable(source, {name: join(part) for name, part in parts.items()}, lambda row: f"line {line_of[row]}")


def _rows(reader: Reader, line_of: array[int], width: int, source: str) -> Iterator[list[str]]:
    """The rows that are not blank; the line each ends at goes to ``line_of``."""
    for cells in filter(None, reader):  # a blank line has no cells
        if len(cells) != width:
            raise ConfigurationError(f"line {reader.line_num}: {len(cells)} values, header of {width}", source)
        line_of.append(reader.line_num)
        yield cells


def _objects(texts: Iterator[str], line_of: array[int], source: str) -> Iterator[dict[str, Any]]:
    """The objects of the lines that are not blank; the line of each goes to ``line_of``."""
    for number, text in enumerate(texts, 1):
        if text.isspace():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"line {number} is not JSON ({error})", source) from None
        if not isinstance(row, dict):
            raise ConfigurationError(f"line {number} is no JSON object but {type(row).__name__}", source)
        line_of.append(number)
        yield row
