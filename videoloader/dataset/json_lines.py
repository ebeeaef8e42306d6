"""Rows of a text file that holds a JSON object in each line (https://jsonlines.org)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Any

from videoloader.dataset.columns import ABSENT, Column, absent, join, pack
from videoloader.dataset.raw_table import ROWS_AT_ONCE, RawTable, lines
from videoloader.errors import ConfigurationError


def read_json_lines(source: str) -> RawTable:
    """The rows of a file; a name that only some objects have is a column that is absent in the other rows.

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
            parts[name] = [absent(before)] if before else []
        for name, part in parts.items():
            part.append(pack([row.get(name, ABSENT) for row in chunk]))
    if not line_of:
        raise ConfigurationError("the table has no rows", source)
    return RawTable(source, {name: join(part) for name, part in parts.items()}, lambda row: f"line {line_of[row]}")


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
