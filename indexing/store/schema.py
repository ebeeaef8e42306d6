"""Define the tables of an index store, and the values of their rows."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from videoloader.errors import IndexingError, SourceError, system_reason, warn_user
from videoloader.errors.checks import shortened
from videoloader.errors.names_elsewhere import nearest
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.regular_file import check_regular, is_missing, open_regular
from videoloader.indexing.sources.state import Place
from videoloader.indexing.store.connection import Connection
from videoloader.indexing.store.frame_facts import first_key_frame, frames_without_key, is_even, time_rule
from videoloader.indexing.store.frame_table import PackedIndex
from videoloader.indexing.store.read_only import Guard

APPLICATION_ID = 0x564C4958  # "VLIX"
SCHEMA_VERSION = 3
# Seconds that a connection waits for another one's transaction; those of a build take milliseconds.
BUSY_TIMEOUT = 30.0
# SQLITE_READONLY_ROLLBACK, which Python only names from 3.11 on, and SQLite's message for it.
_READONLY_ROLLBACK, _READONLY = 8 | 3 << 8, "attempt to write a readonly database"

# The end of a rollback journal that names another file (SQLite's file format, 3).
_JOURNAL_END = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

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
_TABLES = (
    f"CREATE TABLE videos (id INTEGER PRIMARY KEY, {', '.join(_COLUMN_TYPES)})",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # Separate from the facts, so that a pass over the facts does not read the blobs.
    "CREATE TABLE frame_tables (video INTEGER PRIMARY KEY, record BLOB NOT NULL, blob BLOB NOT NULL)",
    "CREATE TABLE records (key BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
    # A random name that the first of the builds at a time writes into the file, and never into the log. The settings
    # have it, too, and they are part of every log. So a log that was left beside another file is recognised.
    "CREATE TABLE generation (name TEXT NOT NULL)",
)
_IS_OF_ONE_FILE = "SELECT (SELECT name FROM generation) IS (SELECT value FROM settings WHERE name = 'generation')"


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


def is_being_written(path: str) -> bool:
    """Whether the store has a log beside it, because it is being built, or a build was killed."""
    path = _beside_logs(path)
    return not is_missing(path + "-wal") or not is_missing(path + "-journal")


def _beside_logs(path: str) -> str:
    """Return the path of the file beside which SQLite has its logs, if the path is a link."""
    return os.path.realpath(path) if os.path.islink(path) else path


def _check_logs(path: str) -> None:
    """Raise SourceError if a log beside a store is none that a build leaves.

    SQLite would block at a FIFO. It would delete the file that a journal names as the journal of several databases.
    """
    names_another = False
    path = _beside_logs(path)
    try:
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                check_regular(path + ending, os.stat(path + ending))
        with suppress(FileNotFoundError), open(path + "-journal", "rb", opener=open_regular) as journal:
            journal.seek(max(os.fstat(journal.fileno()).st_size - len(_JOURNAL_END), len(_JOURNAL_END)))
            names_another = journal.read() == _JOURNAL_END
    except OSError as error:
        raise SourceError(f"a log of the index store cannot be read ({error})", path) from None
    if names_another:
        name = os.path.basename(path)
        raise SourceError(f"{name}-journal beside the index store names another file: delete it", path)


def connect_reader(path: str, guard: Guard, *, immutable: bool) -> sqlite3.Connection:
    """Open a read-only connection, after undoing what a killed build left unfinished.

    The file is only ever opened by SQLite: by the rules of POSIX, closing it otherwise would release the locks that
    other connections of this process hold (https://www.sqlite.org/howtocorrupt.html, 2.2).

    Args:
        path: absolute path of the store.
        guard: guard that decides which statements the connection accepts.
        immutable: whether nobody writes, so that no locks are needed, and the file may be on a read-only or network
            file system.

    Raises:
        IndexingError: the file is no index store, or one of another version.
    """
    try:
        try:
            return _open(path, guard, "ro&immutable=1" if immutable else "ro")
        except sqlite3.OperationalError as error:
            if not needs_rollback(error):
                raise
        _open(path, guard, "rw").close()
        return _open(path, guard, "ro")
    except sqlite3.OperationalError as error:
        raise SourceError(f"the index store cannot be read ({error}{_advice(error)})", path) from None
    except (sqlite3.DatabaseError, UnicodeError) as error:  # messages quote the file's contents
        raise _refusal(error, path) from None


def _refusal(error: Exception, path: str) -> IndexingError:
    if "malformed" in str(error):  # SQLite says this also where the system cannot read the file
        remedy = "if this remains, delete it and build it again"
        return IndexingError(f"the index store is damaged, or cannot be read now ({error}): {remedy}", path)
    return IndexingError(f"is not an index store ({error})", path)


def needs_rollback(error: sqlite3.Error) -> bool:
    """Whether a killed build left a transaction that must be undone, which takes permission to write.

    The next connection that may write undoes it when it reads.
    """
    code = getattr(error, "sqlite_errorcode", None)
    # Python 3.10 does not give codes. There, trying again with a store that cannot be written does no harm.
    return code == _READONLY_ROLLBACK if code is not None else _READONLY in str(error)


def _open(path: str, guard: Guard, mode: str) -> sqlite3.Connection:
    if "immutable" not in mode:
        _check_logs(path)
    uri = f"file://{quote(os.fsencode(path))}?mode={mode}"
    connection = Connection(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        _distrust(connection)
        _check_schema(connection, path)
        # Each thread of a reader has its own connection, and half a megabyte of pages is enough for look-ups.
        connection.execute("PRAGMA cache_size = -512")
        guard.watch(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(path: str, root: str | None) -> sqlite3.Connection:
    """Open a connection that writes; the file and its tables are created if necessary.

    Args:
        path: absolute path of the store.
        root: absolute folder to record in a new store; None for the folder of the store.

    Raises:
        SourceError: the file cannot be written.
        IndexingError: the file is no index store, or one of another version.
    """
    check_no_folder(path)
    _check_logs(path)
    if not is_missing(path) and not is_missing(_beside_logs(path) + "-wal"):
        # The last connection that may write applies the log to the file when it is closed.
        connect_reader(path, Guard(), immutable=False).close()
    try:
        connection = Connection(path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            _distrust(connection)
            connection.execute("PRAGMA page_size = 8192")  # for a new file: wastes less space around blobs of 1 or 2 kB
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
            _check_schema(connection, path)
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                name = (token_hex(16),)
                connection.execute("DELETE FROM generation")
                connection.execute("INSERT INTO generation VALUES (?)", name)
                connection.execute("INSERT OR REPLACE INTO settings VALUES ('generation', ?)", name)
            connection.execute("COMMIT")
            _set_journal_mode(connection, "wal", BUSY_TIMEOUT)
            _mend_names(connection, path)
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise SourceError(f"the index store cannot be written ({error}{_advice(error)})", path) from None
    except (sqlite3.DatabaseError, UnicodeError) as error:  # messages quote the file's contents
        raise _refusal(error, path) from None
    return connection


def _mend_names(connection: sqlite3.Connection, path: str) -> None:
    """Make SQLite's index over the names of videos anew if it differs from the rows, as after damage to the file.

    Otherwise a build would take videos for new ones or for others, and write rows twice. Names that are damaged in the
    rows, too, count as videos that have vanished. (The check takes 2 to 6 s for a million videos.)

    Raises:
        IndexingError: the rows are damaged, too.
    """
    found = fault_of_names(connection.execute)
    if found is None:
        return
    try:
        mark_change(connection)
        connection.execute("REINDEX videos")
    except sqlite3.OperationalError:
        raise  # the disk is full, or another process writes
    except sqlite3.DatabaseError as error:
        found = str(error)
    else:
        if fault_of_names(connection.execute) is None:
            warn_user(f"{path}: names in the index store were damaged and are mended ({found})")
            return
    raise IndexingError(f"the index store is damaged ({found}): delete it and build it again", path)


def fault_of_names(select: Callable[[str], Iterable[tuple[str]]]) -> str | None:
    """Return how the names of videos differ from SQLite's index over them; None if they do not.

    Args:
        select: function that runs a statement on the store.
    """
    (found,), *_ = select("PRAGMA integrity_check(videos)")
    return None if found == "ok" else found


# The store itself, its log, the index of the log, and a journal.
_FILES = 4


def _advice(error: sqlite3.Error) -> str:
    """Return what to do, where SQLite does not tell: about a lock that others hold, or a lack of descriptors."""
    if "locked" in str(error):
        return "; if no other program uses it, its file system has no locks, as some of NFS: put it on a local disk"
    with ExitStack() as opened:
        try:
            for _ in range(_FILES):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as lack:
            return f"; {system_reason(lack)}: `ulimit -a` shows its limits"
    return ""


@contextmanager
def told_as_unwritable(path: str) -> Iterator[None]:
    """Turn SQLite's errors in the block, which writes to a store or reads it in order to write, into SourceError."""
    try:
        yield
    except sqlite3.Error as error:
        raise SourceError(f"the index store cannot be written ({error}{_advice(error)})", path) from None


def check_no_folder(path: str) -> None:
    """Raise SourceError if the path of a store is a folder, or anything else that is no file."""
    if os.path.isdir(path):
        raise SourceError('is a folder: name the file of the index store in it, such as "index.db"', path)
    try:
        check_regular(path, os.stat(path))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # a name that no file can have is a ValueError
        raise SourceError(f"the index store cannot be opened ({system_reason(error)})", path) from None


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


def close_writer(connection: sqlite3.Connection) -> None:
    """Make the store a single file again, unless others have it open: then the last writer does that."""
    patience = 0.2
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _set_journal_mode(connection, "delete", patience)
    except sqlite3.DatabaseError:
        pass  # in use, or damaged: the log is as good as the file
    finally:
        connection.close()


def _set_journal_mode(connection: sqlite3.Connection, mode: str, patience: float) -> None:
    """Set the journal mode. Unlike other statements, this does not wait for a lock on the file, so it is repeated."""
    deadline = time.monotonic() + patience
    connection.execute(f"PRAGMA busy_timeout = {int(min(patience, 1) * 1000)}")
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            break
        except sqlite3.OperationalError as error:
            if "lock" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")


def _distrust(connection: sqlite3.Connection) -> None:
    """Make SQLite distrust the file, as its page on defence against the dark arts advises for files from others."""
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")


def _check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Raise IndexingError unless a file has exactly the tables of an index store of this version."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        what = "another application's database" if found else "empty, as until the first build has created its tables"
        raise IndexingError(f"is not an index store, but {what}", path)
    if version != SCHEMA_VERSION:
        other = f"is an index store of version {version}; this videoloader reads version {SCHEMA_VERSION}"
        raise IndexingError(f"{other}: build a new one", path)
    # Views, triggers and computed columns would be run in place of the tables.
    others = [str(name) for name, sql in found if sql not in _TABLES]
    if others or len(found) != len(_TABLES):
        what = f"it defines {others[0]!r:.80}" if others else "it lacks a table"
        raise IndexingError(f"the index store is damaged or was altered ({what}): delete it and build it again", path)
    if not connection.execute(_IS_OF_ONE_FILE).fetchone()[0]:
        log = f"{os.path.basename(_beside_logs(path))}-wal"
        what = f"the log {log} is of another index store, which was here before"
        raise IndexingError(f"{what}: delete {log} and {log.removesuffix('wal')}shm", path)
