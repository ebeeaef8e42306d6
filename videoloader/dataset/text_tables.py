"""Reads the rows of text files: delimited text (CSV of RFC 4180, TSV, semicolons), or one JSON object per line."""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from videoloader.dataset.columns import ABSENT, Column, PackedStrings, join, pack
from videoloader.dataset.raw_table import ROWS_AT_ONCE, RawTable, beyond_table, check_table
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check
from videoloader.indexing.sources.text_lines import csv_within_limits, lines

_SEPARATORS = ",\t;|"
_REFERENCE = 8  # bytes
_ONE_A_LINE = (
    'a table of JSON has an object in each line, such as {"path": "a.mp4", "label": 0}: pandas makes it of a list, by '
    'read_json("a.json").to_json("a.jsonl", orient="records", lines=True)'
)
# Other white space, such as a no-break space, is part of a name.
_words = re.compile(r"[^ \t\r\n]+").findall
_COMMENT = "; a table has no comments: take out what begins with #"


def read_delimited(source: str, given: Sequence[str] | None = None, separator: str | None = None) -> RawTable:
    """The rows of a UTF-8 file of delimited text, with or without a header.

    Args:
        source: path of the file.
        given: names of the columns, for a file without a header.
        separator: character between values; None for the most frequent one of comma, tab, semicolon and bar in the
            first line, after which spaces are not part of a value. A space means any number of spaces and tabs; quotes
            are then part of values, and values at the end of a line may be missing.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: the file is not such a table (the message has the line), or an argument has a value that is
            not allowed.
    """
    names = given if isinstance(given, list | tuple) else ()
    are_names = given is None or (names and all(isinstance(name, str) for name in names))
    check("header", given, are_names, "a list of names, as ['path', 'label']", source=source)
    is_one = isinstance(separator, str) and len(separator) == 1 and separator not in '"\r\n'
    check("separator", separator, separator is None or is_one, "one character, as ',' or ' '", source=source)
    # The file is opened once, since another may be renamed to its path meanwhile.
    texts = lines(source)
    first = next(texts, "")
    if first.lstrip().startswith(("[", "{")):
        raise ConfigurationError(f"begins as JSON does: {_ONE_A_LINE}, and ends with .jsonl", source)
    if given is None and first.startswith("#"):
        raise ConfigurationError(f"the header begins with #{_COMMENT}", source)
    with csv_within_limits():
        return _read_delimited(source, given, separator or max(_SEPARATORS, key=first.count), chain([first], texts))


def _read_delimited(source: str, given: Sequence[str] | None, separator: str, texts: Iterator[str]) -> RawTable:
    line_of = array("q")
    try:
        numbered: Iterator[tuple[int, list[str]]]
        if separator == " ":
            numbered = ((number, _words(text)) for number, text in enumerate(texts, 1))
        else:
            reader = csv.reader(texts, delimiter=separator, strict=True, skipinitialspace=True)
            numbered = ((reader.line_num, cells) for cells in reader)
        header = [name.strip() for name in (next((row for _, row in numbered if row), []) if given is None else given)]
        check_table(source, len(header))
        if len(set(header)) < len(header):
            raise ConfigurationError(f"the header has two columns of one name: {header}", source)
        rows, parts = _rows(numbered, separator == " ", line_of, len(header), source), list[list[Column]]()
        while chunk := list(islice(rows, ROWS_AT_ONCE)):
            parts.append([PackedStrings(values) for values in zip(*chunk, strict=True)])
    except csv.Error as error:
        told = str(error).replace("unexpected end of data", "a value begins with quotes that nothing closes")
        if told.startswith("field larger"):
            told = beyond_table("cell_characters", "a value", "characters")
        raise ConfigurationError(f"after line {line_of[-1] if line_of else 0}: {told}", source) from None
    if not line_of:
        hint = " under a header: header=[…] names the columns of a table without one" if given is None else ""
        raise ConfigurationError(f"the table has no rows{hint}", source)
    columns = {name: join(part) for name, part in zip(header, zip(*parts, strict=True), strict=True)}
    return RawTable(source, columns, lambda row: f"line {line_of[row]}")


def read_json_lines(source: str) -> RawTable:
    """The objects in the lines of a file (https://jsonlines.org); a name that a row lacks is absent in it.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: a line is not a JSON object; the message has its number.
    """
    line_of = array("q")
    parts: dict[str, list[Column]] = {}
    rows = _objects(lines(source), line_of, source)
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        before = len(line_of) - len(chunk)
        there = dict.fromkeys(name for row in chunk for name in row)
        check_table(source, count := len(parts.keys() | there), count * len(line_of) * _REFERENCE)
        for name in there:
            parts.setdefault(name, [[ABSENT] * before] if before else [])
        values = {name: [ABSENT] * len(chunk) for name in parts}
        for place, row in enumerate(chunk):
            for name, value in row.items():
                values[name][place] = value
        for name, part in parts.items():
            part.append(pack(values.pop(name)))
    if not line_of:
        raise ConfigurationError("the table has no rows", source)
    return RawTable(source, {name: join(part) for name, part in parts.items()}, lambda row: f"line {line_of[row]}")


def _rows(
    numbered: Iterator[tuple[int, list[str]]], are_words: bool, line_of: array[int], width: int, source: str
) -> Iterator[list[str]]:
    """The rows that are not blank; the number of the line that each ends at is added to ``line_of``."""
    for number, cells in numbered:
        if not cells:  # a blank line
            continue
        if are_words:
            cells += [""] * (width - len(cells))
        if len(cells) != width:
            hint = "; a path with spaces needs another separator" if are_words else ""
            hint = _COMMENT if cells[0].startswith("#") else hint
            raise ConfigurationError(f"line {number}: {len(cells)} values, header of {width}{hint}", source)
        line_of.append(number)
        yield cells


def each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, each of whose names must occur once: JSON's own reader would keep the last value."""
    row = dict(pairs)
    if len(row) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        name = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"it has {name!r} twice")
    return row


def _objects(texts: Iterator[str], line_of: array[int], source: str) -> Iterator[dict[str, Any]]:
    """The objects of the lines that are not blank; the line number of each is added to ``line_of``."""
    for number, text in enumerate(texts, 1):
        if text.isspace():
            continue
        try:
            row = json.loads(text, object_pairs_hook=each_name_once)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"line {number} is not JSON ({error}): {_ONE_A_LINE}", source) from None
        if not isinstance(row, dict):
            kind = type(row).__name__
            raise ConfigurationError(f"line {number} is a {kind}, not a JSON object: {_ONE_A_LINE}", source)
        line_of.append(number)
        yield row
