"""Tables of videos in CSV: reading them, and finding out which column is what."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from videoloader.errors import ConfigurationError, SourceError

# What ``from_csv`` takes each column for. Frames come before seconds because they are exact.
_GUESSES = {
    "path": ("path", "video", "filename", "file"),
    "label": ("label", "class"),
    "start": ("start_frame",),
    "stop": ("end_frame", "stop_frame"),
    "start_seconds": ("start", "start_time", "start_seconds"),
    "stop_seconds": ("end", "stop", "end_time", "stop_time", "end_seconds", "stop_seconds"),
}

ENDS = ("start", "stop", "start_seconds", "stop_seconds")
_OTHER_UNIT = dict(zip(ENDS, (*ENDS[2:], *ENDS[:2]), strict=True))


def read_table(source: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header and the rows of a CSV file, each row with its line number."""
    table: list[tuple[int, list[str]]] = []
    try:
        with open(source, encoding="utf-8-sig", newline="") as file:
            delimiter = max(",\t;", key=file.readline().count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for cells in filter(None, reader):  # a blank line has no cells
                table.append((reader.line_num, cells))
    except OSError as error:
        raise SourceError(f"the table cannot be read ({error.strerror})", source) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"after line {table[-1][0] if table else 0}: {error}", source) from None
    if len(table) < 2:
        raise ConfigurationError("the table has no rows under a header", source)
    header = [name.strip() for name in table[0][1]]
    if len(set(header)) < len(header):
        raise ConfigurationError(f"the header has a name twice: {header}", source)
    for line, cells in table[1:]:
        if len(cells) != len(header):
            raise ConfigurationError(f"line {line}: {len(cells)} values, header of {len(header)}", source)
    return header, table[1:]


def find_columns(header: list[str], given: Mapping[str, str], source: str) -> dict[str, int]:
    """Place in the header of each known column that is there."""
    for column, name in given.items():
        if column not in _GUESSES or name not in header:
            names = f"columns must map {', '.join(_GUESSES)} to names of the header {header}"
            raise ConfigurationError(f"{names}, got {column!r}: {name!r}", source)
    place = {column: header.index(name) for column, name in given.items()}
    small = [name.lower() for name in header]
    for column, guesses in _GUESSES.items():
        found = [small.index(name) for name in guesses if name in small]
        free = [i for i in found if i not in place.values()]
        if free and column not in place and _OTHER_UNIT.get(column) not in place:
            place[column] = free[0]
    if "path" not in place:
        raise ConfigurationError(f"give columns={{'path': …}}: no column for it in header {header}", source)
    for pair in ({"start", "stop_seconds"}, {"start_seconds", "stop"}):
        if pair <= place.keys() and not pair <= given.keys():
            raise ConfigurationError(f"give columns=…: frames or seconds, in the header {header}?", source)
    return place


def read_number(end: str, text: str) -> Any:
    seconds = end.endswith("_seconds")
    try:
        return (float(text) if seconds else int(text)) if text else None
    except ValueError:
        raise ConfigurationError(f"{end} {text!r} is no {'' if seconds else 'whole '}number") from None
