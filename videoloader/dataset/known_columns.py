"""Interprets the columns of a table, and makes the entries that its rows describe."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from videoloader.dataset.allowed_sources import Sources, check_sources
from videoloader.dataset.columns import ABSENT, Column, PackedStrings, plain
from videoloader.dataset.entry import ENDS
from videoloader.dataset.labels import number_labels, parse_labels
from videoloader.dataset.raw_table import RawTable
from videoloader.dataset.table import EntryTable, array_of, make_table
from videoloader.errors import ConfigurationError, warn_user
from videoloader.indexing.sources.opening import is_url, split_local

# The names by which ``from_csv`` finds each column. Frames come before seconds because they are exact.
_GUESSES = {
    "path": ("path", "video", "filename", "file", "video_path", "file_path", "filepath", "file_name"),
    "label": ("label", "class", "label_name", "class_name"),
    "start": ("start_frame",),
    "stop": ("end_frame", "stop_frame"),
    "start_seconds": ("start", "start_time", "start_seconds", "time_start"),
    "stop_seconds": ("end", "stop", "end_time", "stop_time", "end_seconds", "stop_seconds", "time_end"),
}
_OTHER_UNIT = dict(zip(ENDS, (*ENDS[2:], *ENDS[:2]), strict=True))
# Names that probably mean one of these, but not surely enough to be used.
_AFTER = r"(s|_?id|_?i?dx|_?names?|_?time|_?frame|_?secs?|_?seconds|_?m?s)?(?![a-z])"
_UNIT = r"(_?(time|frame|idx|secs?|seconds|m?s))"
_LOOKS_LIKE = {
    "label": re.compile(
        rf"(?<![a-z])(label|class|classes|cls|category|categorie|action|activity|activitie|target|tag|verb|noun){_AFTER}"
        r"|^(gt|y)(_?(label|class|id))?$"
    ),
    "start": re.compile(rf"(?<![a-z])(start|begin|onset|t_?0){_AFTER}|^first{_UNIT}$|^from{_UNIT}?$"),
    "stop": re.compile(rf"(?<![a-z])(?<!byte_)(end|stop|finish|offset|t_?1){_AFTER}|^last{_UNIT}$|^to{_UNIT}?$"),
}
_IN_FRAMES, _IN_MILLISECONDS = re.compile(r"frame|i?dx"), re.compile(r"_ms$|millis")
# Rows have no length column, but a length next to a start without an end was probably meant to be used.
_LENGTH = re.compile(r"(?<![a-z])(duration|dur|length|num_?frames|n_frames)(?![a-z])")
_LONGEST_SHOWN = 80

Where = Callable[[int], str]


def entries_of(
    table: RawTable,
    given: Mapping[str, str],
    root: str | None,
    class_names: Sequence[str] | None,
    *,
    headless: bool = False,
    sources: Sources = "any",
) -> tuple[EntryTable, Sequence[str]]:
    """The entries that the rows of a table describe, and the class names.

    Args:
        table: the rows.
        given: the user's names for the path, label and end columns.
        root: folder that relative paths start from; the table's own where None.
        class_names: as in ``VideoDataset.from_paths``.
        headless: whether the user named the columns, so that a first row that looks like a header is a mistake.
        sources: sources that rows may name, as in ``check_sources``.

    A warning names unused columns that look like a label or an end, if no other column provides it.

    Raises:
        ConfigurationError: a column is missing, or a value is invalid; the message has its line.
    """
    name_of = find_columns(list(table.columns), given, table.source)
    _warn_of_unused(list(table.columns), name_of, table.source)
    folder = os.path.dirname(table.source) if root is None else root

    def where(row: int) -> str:
        return f"{table.source}: {table.where(row)}"

    paths = plain(table.columns[name_of["path"]])
    if headless and paths[0].strip().lower() in _GUESSES["path"]:
        raise ConfigurationError(f"{where(0)}: {paths[0]!r} is a header's word, not a path: leave header=… out")
    labels, known = _labels(table, name_of.get("label"), class_names, where)
    fields = {"label": array_of("label", labels)} if labels else {}
    for end in ENDS:
        if end in name_of:
            values = enumerate(plain(table.columns[name_of[end]]))
            fields[end] = array_of(end, (_number(end, value, row, where) for row, value in values))
    paths = PackedStrings(_full_paths(paths, folder, where))
    check_sources(paths, sources, folder, where)
    columns = {name: column for name, column in table.columns.items() if name not in name_of.values()}
    return make_table(paths, fields, columns, where), known


def find_columns(header: list[str], given: Mapping[str, str], source: str) -> dict[str, str]:
    """The table's name for each known column that it has."""
    for column, name in given.items():
        if column not in _GUESSES or name not in header:
            names = f"columns must map {', '.join(_GUESSES)} to names of the header {header}"
            raise ConfigurationError(f"{names}, got {column!r}: {name!r}", source)
    found = dict(given)
    by_small_name = {name.strip().lower(): name for name in reversed(header)}
    by_small_name |= {name: name for name in header if name in by_small_name}  # exact names come first
    for column, guesses in _GUESSES.items():
        there = [by_small_name[guess] for guess in guesses if guess in by_small_name]
        free = [name for name in there if name not in found.values()]
        if free and column not in found and _OTHER_UNIT.get(column) not in found:
            found[column] = free[0]
    if {"source", "fingerprint"} <= set(header):  # an export of an index store
        found.setdefault("path", "source")
    if "path" not in found:
        hint = "; a list without a header: header=['path', 'label'], and separator=' ' if spaces separate its values"
        raise ConfigurationError(f"give columns={{'path': …}}: no column for it in header {header}{hint}", source)
    for pair in ({"start", "stop_seconds"}, {"start_seconds", "stop"}):
        if pair <= found.keys() and not pair <= given.keys():
            raise ConfigurationError(f"the header {header} mixes frames and seconds: give columns=…", source)
    for end, seconds in zip(ENDS[:2], ENDS[2:], strict=True):
        ignored = [each for each in _GUESSES[seconds] if each in by_small_name and end in found and end not in given]
        if ignored and by_small_name[ignored[0]] not in found.values():
            taken = f"{found[end]} gives the {end} in frames: give columns={{{end!r}: {found[end]!r}}} if that is meant"
            warn_user(f"{source}: {by_small_name[ignored[0]]} is not read, because {taken}")
    return found


def _warn_of_unused(header: list[str], name_of: Mapping[str, str], source: str) -> None:
    """Warn about columns that probably mean a label or an end that the rows lack."""
    unused, small_names = dict[str, str](), {name: _small(name) for name in header}
    for column, looks in _LOOKS_LIKE.items():
        if column in name_of or f"{column}_seconds" in name_of:
            continue
        for name, small in small_names.items():
            if small == "y" and "x" in small_names.values():  # a position in the picture
                continue
            if name not in (*name_of.values(), *unused.values()) and looks.search(small):
                unused[column if column == "label" or _IN_FRAMES.search(small) else f"{column}_seconds"] = name
                break
    if unused:
        names = ", ".join(unused.values())
        thousandths = [name for name in unused.values() if _IN_MILLISECONDS.search(small_names[name])]
        known = {column: name for column, name in unused.items() if name not in thousandths}
        told = [f"if they are, give columns={known}"] * bool(known)
        if thousandths:
            told.append(f"{', '.join(thousandths)} in milliseconds: write columns start and end in seconds")
        warn_user(f"{source}: not read as a label or a time: {names}; {'; '.join(told)}")
    found = {*name_of, *unused}
    lengths = [name for name, small in small_names.items() if _LENGTH.search(small) and name not in name_of.values()]
    if lengths and found & {"start", "start_seconds"} and not found & {"stop", "stop_seconds"}:
        wanted = "rows last to the end of their video, unless a column has the stop: the start plus the length"
        warn_user(f"{source}: not read as a length: {lengths[0]}; {wanted}: give columns={{'stop_seconds': …}}")


def _small(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).lower()


def _labels(
    table: RawTable, name: str | None, class_names: Sequence[str] | None, where: Where
) -> tuple[Sequence[int | None], Sequence[str]]:
    """The labels, empty without a column of them, and the class names."""
    column: Column = table.columns[name] if name else []
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":  # even if the class names look like numbers
        return number_labels(column.tolist(), class_names, where)
    texts = (_label_text(value, row, where) for row, value in enumerate(plain(column)))
    once: dict[str, str] = {}  # few texts are distinct: each is stored once
    return parse_labels([once.setdefault(text, text) for text in texts], class_names, where)


def _is_missing(value: Any) -> bool:
    return value is None or value is ABSENT or value == "" or value != value


def _full_paths(values: Iterable[Any], folder: str, where: Where) -> Iterator[str]:
    start = os.path.join(folder, "") if folder else ""
    for row, value in enumerate(values):
        if not isinstance(value, str):
            found = "nothing" if _is_missing(value) else repr(value)
            raise ConfigurationError(f"{where(row)}: path must be a non-empty string, got {found}")
        path = value.lstrip() if "::" in value else value.strip()  # a member's name may end with a space
        full = path if not path or is_url(path) or os.path.isabs(path) else start + path
        if path != value and _is_there(exact := value if is_url(value) else os.path.join(start, value)):
            full = exact  # a name may have spaces around it
        yield full


def _is_there(name: str) -> bool:
    path, _ = split_local(name, os.path.lexists)
    folder, file = os.path.split(path)
    return os.path.lexists(path) or (bool({"*", "?"} & set(file)) and os.path.isdir(folder or os.curdir))


def _label_text(value: Any, row: int, where: Where) -> str:
    """A label as text; empty where it is missing."""
    if isinstance(value, str):
        return value.strip()
    if _is_missing(value):
        return ""
    if isinstance(value, float) and value.is_integer():  # pandas writes integers with gaps as floats
        return str(int(value))
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{where(row)}: label must be a number or a name, got {value!r}")
    return str(value)


def _number(end: str, value: Any, row: int, where: Where) -> int | float | None:
    """A frame number or a time; None where it is missing."""
    given = value.strip() if isinstance(value, str) else value
    if _is_missing(given):
        return None
    in_seconds = end.endswith("_seconds")
    try:
        if isinstance(given, bool | bytes | bytearray):
            raise TypeError
        if isinstance(given, str) and "_" in given:  # Python takes 1_0 for 10
            raise ValueError
        number = float(given) if in_seconds else _whole_number(given)
    except (ValueError, TypeError, OverflowError):
        text = repr(given) if len(str(given)) < _LONGEST_SHOWN else f"{str(given)[:_LONGEST_SHOWN]}…"
        kind = "number of seconds, as 61.5" if in_seconds else "whole number of 64 bits"
        raise ConfigurationError(f"{where(row)}: {end} {text} is not a {kind}") from None
    if number != number:  # NaN would mean that there is no number
        raise ConfigurationError(f"{where(row)}: {end} must be a number, got {number}")
    return number


def _whole_number(given: Any) -> int:
    number = int(given)
    if (not isinstance(given, str) and number != given) or abs(number) >= 2**63:
        raise ValueError
    return number
