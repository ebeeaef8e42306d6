"""Define the tables of an index store, and the values of their rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from hashlib import blake2b
from secrets import token_hex
from typing import Any, NamedTuple

import numpy as np

from videoloader.errors import IndexingError
from videoloader.errors.checks import shortened
from videoloader.errors.names_elsewhere import nearest
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.state import Place
from videoloader.indexing.store.frame_facts import first_key_frame, frames_without_key, is_even, time_rule
from videoloader.indexing.store.frame_table import PackedIndex

APPLICATION_ID = 0x564C4958  # "VLIX"
SCHEMA_VERSION = 3

Fact = str | int | float | None

# What can be asked about a video in SQL: the type of the column, and a function of the index.
FACTS: dict[str, tuple[str, Callable[[VideoIndex], Fact]]] = {
    "container": ("TEXT", lambda index: index.container),
    "method": ("TEXT", lambda index: index.method),
    "codec": ("TEXT", lambda index: index.stream.codec),
    "width": ("INTEGER", lambda index: int(index.stream.width)),
    "height": ("INTEGER", lambda index: int(index.stream.height)),
    "rotation": ("INTEGER", lambda index: int(index.stream.rotation)),
    "fps": ("REAL", lambda index: index.average_fps),
    "duration_s": ("REAL", lambda index: index.duration),
    "frames": ("INTEGER", len),
    "packets": ("INTEGER", lambda index: len(index.packet_size)),
    "keyframes": ("INTEGER", lambda index: int(np.count_nonzero(index.packet_key))),
    "longest_gop": ("INTEGER", lambda index: _longest_gop(index)),
    "is_vfr": ("INTEGER", lambda index: int(index.is_vfr)),
    "bit_depth": ("INTEGER", lambda index: int(index.stream.bit_depth)),
    "chroma": ("TEXT", lambda index: index.stream.chroma),
    "color_primaries": ("INTEGER", lambda index: int(index.stream.color_primaries)),
    "color_transfer": ("INTEGER", lambda index: int(index.stream.color_transfer)),
    "color_matrix": ("INTEGER", lambda index: int(index.stream.color_matrix)),
    "color_range": ("TEXT", lambda index: index.stream.color_range),
    "byte_ranges": ("INTEGER", lambda index: int(index.byte_ranges)),
    "size_varies": ("INTEGER", lambda index: int(index.stream.size_varies)),
    "encrypted": ("INTEGER", lambda index: int(index.stream.encrypted)),
    "first_time_s": ("REAL", lambda index: float(index.timestamps[0])),
    "last_time_s": ("REAL", lambda index: float(index.timestamps[-1])),
    "is_even": ("INTEGER", lambda index: int(is_even(index))),
    "first_key_frame": ("INTEGER", first_key_frame),
    "frames_without_key": ("INTEGER", frames_without_key),
    "time_rule": ("TEXT", time_rule),
}
# The columns of the table `videos` that users may query, with their types.
COLUMNS = {
    "source": "TEXT",
    "fingerprint": "TEXT",
    "error_type": "TEXT",
    "error": "TEXT",
    "indexer": "INTEGER",
    "archive": "TEXT",
    "byte_offset": "INTEGER",
    "byte_size": "INTEGER",
    **{name: kind for name, (kind, _) in FACTS.items()},
}
_COLUMN_TYPES = (f"{name} {kind}{' NOT NULL UNIQUE' if name == 'source' else ''}" for name, kind in COLUMNS.items())
# Joins the packed indexes, in columns ``records.record`` and ``blob``, to the table ``videos``.
JOIN_INDEXES = "LEFT JOIN frame_tables ON video = id LEFT JOIN records ON key = frame_tables.record"
TABLES = (
    f"CREATE TABLE videos (id INTEGER PRIMARY KEY, {', '.join(_COLUMN_TYPES)})",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # Separate from the facts, so that a pass over the facts does not read the blobs.
    "CREATE TABLE frame_tables (video INTEGER PRIMARY KEY, record BLOB NOT NULL, blob BLOB NOT NULL)",
    "CREATE TABLE records (key BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
    # A random name that the first of the builds at a time writes into the file, and never into the log. The settings
    # have it, too, and they are part of every log. So a log that was left beside another file is recognised.
    "CREATE TABLE generation (name TEXT NOT NULL)",
)
IS_OF_ONE_FILE = "SELECT (SELECT name FROM generation) IS (SELECT value FROM settings WHERE name = 'generation')"


_TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int)}


def check_values(row: Sequence[object], names: Sequence[str], store: str | None) -> None:
    """Check the types of values of ``COLUMNS``, since SQLite keeps any value in any column.

    Args:
        row: the values; None fits every column.
        names: the name of each value's column; other names, as of expressions, are not checked.
        store: path of the store, for the error.

    Raises:
        IndexingError: a value has a type that a build does not write.
    """
    for value, name in zip(row, names, strict=True):
        if value is not None and name in COLUMNS and not isinstance(value, _TYPES[COLUMNS[name]]):
            what = f"a video has {name}={shortened(value)}: delete it and build it again"
            raise IndexingError(f"the index store is damaged: {what}", store)


class Row(NamedTuple):
    """The row of one video: either an error, or facts and a packed index.

    Attributes:
        key: name of the video in the store.
        fingerprint: fingerprint of the file that was read; None if it has none.
        error_type, error: name of the error's class, and its message without the source.
        facts: facts in the order of ``FACTS``.
        packed: the index.
        place: position of an archive member's bytes, if they lie in one piece.
    """

    key: str
    fingerprint: str | None
    error_type: str | None = None
    error: str | None = None
    facts: tuple[Fact, ...] = (None,) * len(FACTS)
    packed: PackedIndex | None = None
    place: Place | None = None


def facts_of(index: VideoIndex) -> tuple[Fact, ...]:
    """Return the values of ``FACTS`` for one video."""
    return tuple(fact(index) for _, fact in FACTS.values())


def explained(error: object) -> str:
    """Return SQLite's error about a statement. If it names no column, add one that may be meant."""
    name = str(error).partition("no such column: ")[2]
    near = nearest(name, COLUMNS) if name else None
    hint = f"write {near}" if near else "text is written in single quotes"
    return f"{error} ({hint})" if name else str(error)


def mark_change(connection: sqlite3.Connection) -> None:
    """Give the store a new content name with a change. So each log has the page of the settings."""
    connection.execute("INSERT OR REPLACE INTO settings VALUES ('content', ?)", (token_hex(16),))


def record_key(record: bytes) -> bytes:
    """Return the key of a record, which is the same for the same bytes."""
    return blake2b(record, digest_size=12).digest()


def _longest_gop(index: VideoIndex) -> int:
    """Return the most packets that must be decoded for one frame: from a keyframe to before the next."""
    starts = np.concatenate(([0], np.flatnonzero(index.packet_key), [len(index.packet_key)]))
    return int(np.diff(starts).max())


def recorded_roots(settings: dict[str, Any], path: str) -> tuple[str, ...]:
    """Return the folders that keys are relative to, if the user gives none.

    Args:
        settings: rows of the table ``settings``.
        path: absolute path of the store.

    Raises:
        IndexingError: a setting is missing.
    """
    try:
        root, is_own_folder = os.fsdecode(settings["root"]), settings["root_is_own_folder"]
        if not os.path.isabs(root) or "\0" in root:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise IndexingError("the index store is damaged: it records no root folder", path) from None
    # The data set may have been moved together with the store, or the store alone.
    return tuple(dict.fromkeys((root, os.path.dirname(path)))) if is_own_folder else (root,)
