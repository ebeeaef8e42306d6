"""The tables of an index store, and what is written into their rows."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from videoloader.errors import IndexingError, SourceError
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.store.frame_table import PackedIndex

APPLICATION_ID = 0x564C4958  # "VLIX"
SCHEMA_VERSION = 1
# Seconds a connection waits for another one's transaction; a builder's take milliseconds.
BUSY_TIMEOUT = 30.0

Fact = str | int | float | None

# What can be asked about a video in SQL: the column's type, and how it is had from the index.
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
}
# The columns of the table `videos` that a user may ask for, with their types.
COLUMNS = {
    "source": "TEXT",
    "fingerprint": "TEXT",
    "error_type": "TEXT",
    "error": "TEXT",
    "indexer": "INTEGER",
    **{name: kind for name, (kind, _) in FACTS.items()},
}
_TABLES = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE videos (id INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} {kind}{' NOT NULL UNIQUE' if name == 'source' else ''}" for name, kind in COLUMNS.items())
    + ")",
    # Apart from the facts, so that a pass over these does not read the blobs.
    "CREATE TABLE frame_tables (video INTEGER PRIMARY KEY, record BLOB NOT NULL, blob BLOB NOT NULL)",
    "CREATE TABLE records (key BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
)


class Row(NamedTuple):
    """What is stored of one video: either an error, or facts and a packed index.

    Attributes:
        key: its name in the store.
        fingerprint: of the file that was read; None where it has none.
        error_type, error: name of the error's class and its message without the source.
        facts: in the order of ``FACTS``.
        packed: the index.
    """

    key: str
    fingerprint: str | None
    error_type: str | None = None
    error: str | None = None
    facts: tuple[Fact, ...] = (None,) * len(FACTS)
    packed: PackedIndex | None = None


def facts_of(index: VideoIndex) -> tuple[Fact, ...]:
    """The values of ``FACTS`` for one video."""
    return tuple(fact(index) for _, fact in FACTS.values())


def record_key(record: bytes) -> bytes:
    """What a record is known by: the same for the same bytes, whoever writes them first."""
    return blake2b(record, digest_size=12).digest()


def _longest_gop(index: VideoIndex) -> int:
    """Packets, at most, that must be decoded for one frame: from a keyframe to before the next."""
    starts = np.concatenate(([0], np.flatnonzero(index.packet_key), [len(index.packet_key)]))
    return int(np.diff(starts).max())


def is_being_written(path: str) -> bool:
    """Whether the store has a log beside it: somebody builds it now, or was killed doing so."""
    return os.path.exists(path + "-wal") or os.path.exists(path + "-journal")


def connect_reader(path: str, *, immutable: bool) -> sqlite3.Connection:
    """A read-only connection; what a killed build left half done is undone first.

    The file is never opened but by SQLite: closing it otherwise would, by the rules of POSIX, give up the locks that
    other connections of this process hold (https://www.sqlite.org/howtocorrupt.html, 2.2).

    Args:
        path: of the store, absolute.
        immutable: take no locks, since nobody writes: the file may then lie on a read-only or network file system.

    Raises:
        IndexingError: it is no index store, or one of a later version.
    """
    try:
        try:
            return _open(path, "ro&immutable=1" if immutable else "ro")
        except sqlite3.OperationalError as error:
            if not needs_rollback(error):
                raise
        _open(path, "rw").close()
        return _open(path, "ro")
    except sqlite3.OperationalError as error:
        raise SourceError(f"the index store cannot be read ({error})", path) from None
    except sqlite3.DatabaseError as error:
        raise IndexingError(f"is not an index store ({error})", path) from None


def needs_rollback(error: sqlite3.Error) -> bool:
    """Whether a build was killed within a transaction that is still to be undone, which takes the right to write.

    Whoever reads then through a connection that may write undoes it.
    """
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK


def _open(path: str, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        _check_version(connection, path)
        # Each thread of a reader has a connection of its own: half a megabyte of pages is enough for look-ups.
        connection.execute("PRAGMA cache_size = -512")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(path: str, root: str | None) -> sqlite3.Connection:
    """A connection that writes; the file and its tables are made where there are none.

    Args:
        path: of the store, absolute.
        root: absolute folder to be recorded in a new store; the one it lies in unless given.

    Raises:
        SourceError: the file cannot be written.
        IndexingError: it is no index store, or one of a later version.
    """
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            connection.execute("PRAGMA page_size = 8192")  # of a new file: wastes less around blobs of 1 or 2 kB
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES:
                    connection.execute(statement)
                folder = os.fsencode(root or os.path.dirname(path))
                connection.execute(
                    "INSERT INTO settings VALUES ('root', ?), ('root_is_own_folder', ?)", (folder, root is None)
                )
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            _check_version(connection, path)
            connection.execute("COMMIT")
            _set_journal_mode(connection, "wal", BUSY_TIMEOUT)
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        check_no_folder(path)
        raise SourceError(f"the index store cannot be written ({error})", path) from None
    except sqlite3.DatabaseError as error:
        raise IndexingError(f"is not an index store ({error})", path) from None
    return connection


def check_no_folder(path: str) -> None:
    """Raise SourceError where the path of a store is a folder."""
    if os.path.isdir(path):
        raise SourceError('is a folder: name the file of the index store in it, such as "index.db"', path)


def recorded_roots(settings: dict[str, Any], path: str) -> tuple[str, ...]:
    """The folders that keys are relative to, where the user names none.

    Args:
        settings: the rows of that table.
        path: of the store, absolute.

    Raises:
        IndexingError: a setting is missing.
    """
    try:
        root, is_own_folder = os.fsdecode(settings["root"]), settings["root_is_own_folder"]
    except (KeyError, TypeError):
        raise IndexingError("the index store is damaged: it names no root", path) from None
    # Data set and store may have been moved together, or the store alone.
    return tuple(dict.fromkeys((root, os.path.dirname(path)))) if is_own_folder else (root,)


def close_writer(connection: sqlite3.Connection) -> None:
    """Make the store a single file again, unless others have it open: then the last of them to write does."""
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _set_journal_mode(connection, "delete", 0.2)
    except sqlite3.OperationalError:
        pass  # in use: what is in the log is as good as what is in the file
    finally:
        connection.close()


def _set_journal_mode(connection: sqlite3.Connection, mode: str, patience: float) -> None:
    """Unlike other statements this one does not wait while another connection holds the file, so it is repeated."""
    deadline = time.monotonic() + patience
    connection.execute(f"PRAGMA busy_timeout = {int(min(patience, 1) * 1000)}")
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            break
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")


def _check_version(connection: sqlite3.Connection, path: str) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise IndexingError("is not an index store, but empty or another application's database", path)
    if version > SCHEMA_VERSION:
        raise IndexingError(
            f"is an index store of version {version}; this videoloader reads up to {SCHEMA_VERSION}", path
        )
