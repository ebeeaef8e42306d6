"""Open the file of an index store, beside the logs that builds leave, to read or to write."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from secrets import token_hex
from urllib.parse import quote

from videoloader.errors import IndexingError, SourceError, system_reason, warn_user
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.sources.regular_file import check_regular, is_missing, open_regular
from videoloader.indexing.store.connection import Connection, once_free, writing
from videoloader.indexing.store.read_only import Guard
from videoloader.indexing.store.schema import APPLICATION_ID, IS_OF_ONE_FILE, SCHEMA_VERSION, TABLES, mark_change
from videoloader.runtime.forks import keep_forever

# SQLITE_READONLY_ROLLBACK, which Python only names from 3.11 on, and SQLite's message for it.
_READONLY_ROLLBACK, _READONLY = 8 | 3 << 8, "attempt to write a readonly database"
# The end of a rollback journal that names another file (SQLite's file format, 3).
_JOURNAL_END = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
# The store itself, its log, the index of the log, and a journal.
_FILES = 4


def is_being_written(path: str) -> bool:
    """Whether the store has a log beside it, because it is being built, or a build was killed."""
    path = _beside_logs(path)
    return not is_missing(path + "-wal") or not is_missing(path + "-journal")


def _beside_logs(path: str) -> str:
    """Return the path of the file beside which SQLite has its logs, if the path is a link."""
    return os.path.realpath(path) if os.path.islink(path) else path


def _check_logs(path: str) -> None:
    """Raise SourceError if a log beside a store is none that a build leaves.

    SQLite would block at a FIFO, and write to a file that has another name, too. It would delete the file that a
    journal names as the journal of several databases.
    """
    names_another, linked = False, ""
    path = _beside_logs(path)
    try:
        for ending in ("-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                status = os.stat(path + ending)
                check_regular(path + ending, status)
                linked = ending if status.st_nlink > 1 else linked
        with suppress(FileNotFoundError), open(path + "-journal", "rb", opener=open_regular) as journal:
            journal.seek(max(os.fstat(journal.fileno()).st_size - len(_JOURNAL_END), len(_JOURNAL_END)))
            names_another = journal.read() == _JOURNAL_END
    except OSError as error:
        raise_of_handler(error)
        raise SourceError(f"a log of the index store cannot be read ({error})", path) from None
    name = os.path.basename(path)
    if linked:
        told = f"{name}{linked} beside the index store has other names (hard links): put a copy in its place"
        raise SourceError(told, path)
    if names_another:
        raise SourceError(f"{name}-journal beside the index store names another file: delete it", path)


def connect_reader(path: str, guard: Guard, *, immutable: bool) -> Connection:
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
            return once_free(partial(_open, path, guard, "ro&immutable=1" if immutable else "ro"))
        except sqlite3.OperationalError as error:
            if not needs_rollback(error):
                raise
        once_free(partial(_open, path, guard, "rw")).close()
        return once_free(partial(_open, path, guard, "ro"))
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


def _open(path: str, guard: Guard, mode: str) -> Connection:
    if "immutable" not in mode:
        _check_logs(path)
    uri = f"file://{quote(os.fsencode(path))}?mode={mode}"
    connection = Connection(uri, uri=True, check_same_thread=False)
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


def connect_writer(path: str, root: str | None, kind: str | None = None) -> Connection:
    """Open a connection that writes; the file and its tables are created if necessary.

    Args:
        path: absolute path of the store.
        root: absolute folder to record in a new store; None for the folder of the store.
        kind: kind of fingerprints to record in a new store; None for none.

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
        connection = Connection(path)
        try:
            _distrust(connection)
            connection.execute("PRAGMA page_size = 8192")  # for a new file: wastes less space around blobs of 1 or 2 kB
            with writing(connection):
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in TABLES:
                        connection.execute(statement)
                    folder = os.fsencode(root or os.path.dirname(path))
                    connection.execute(
                        "INSERT INTO settings VALUES ('root', ?), ('root_is_own_folder', ?)", (folder, root is None)
                    )
                    if kind is not None:
                        connection.execute("INSERT INTO settings VALUES ('fingerprint', ?)", (kind,))
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                _check_schema(connection, path)
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    name = (token_hex(16),)
                    connection.execute("DELETE FROM generation")
                    connection.execute("INSERT INTO generation VALUES (?)", name)
                    connection.execute("INSERT OR REPLACE INTO settings VALUES ('generation', ?)", name)
            _set_journal_mode(connection, "wal")
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


def _mend_names(connection: Connection, path: str) -> None:
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
        with writing(connection):
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


def close_writer(connection: Connection, process: int) -> None:
    """Make the store a single file again, unless others have it open: then the last writer does that.

    Args:
        connection: result of ``connect_writer``.
        process: number of the process that opened it. One that was forked from it leaves the connection alone.
    """
    if os.getpid() != process:
        keep_forever(connection)  # closing it would release the parent's locks
        return
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        _set_journal_mode(connection, "delete", patience=0.2)
    except sqlite3.DatabaseError:
        pass  # in use, or damaged: the log is as good as the file
    finally:
        connection.close()


def _set_journal_mode(connection: Connection, mode: str, patience: float | None = None) -> None:
    # Most of the work is done when the result has been read. Else that is where the cursor is freed, and where an error
    # of a signal's handler is lost.
    once_free(lambda: connection.execute(f"PRAGMA journal_mode = {mode}").fetchall(), patience)


def _distrust(connection: Connection) -> None:
    """Make SQLite distrust the file, as its page on defence against the dark arts advises for files from others."""
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")


def _check_schema(connection: Connection, path: str) -> None:
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
    others = [str(name) for name, sql in found if sql not in TABLES]
    if others or len(found) != len(TABLES):
        what = f"it defines {others[0]!r:.80}" if others else "it lacks a table"
        raise IndexingError(f"the index store is damaged or was altered ({what}): delete it and build it again", path)
    if not connection.execute(IS_OF_ONE_FILE).fetchone()[0]:
        log = f"{os.path.basename(_beside_logs(path))}-wal"
        what = f"the log {log} is of another index store, which was here before"
        raise IndexingError(f"{what}: delete {log} and {log.removesuffix('wal')}shm", path)
