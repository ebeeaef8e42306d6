"""Connections of SQLite whose calls hold back forks, and wait for the locks of other connections in short steps.

SQLite guards its memory and its files with locks of the process. A process that is forked while another thread holds
one waits forever as soon as it opens a store.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import Any, TypeVar

from videoloader.runtime.forks import no_forks

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Result = TypeVar("_Result")

# Seconds to wait for another connection's transaction; those of a build take milliseconds. Seconds that SQLite itself
# waits, and the messages with which it gives up.
BUSY_TIMEOUT, _STEP = 30.0, 0.1
_LOCKED = ("database is locked", "database table is locked", "locking protocol")


def once_free(action: Callable[[], _Result], patience: float | None = None) -> _Result:
    """Take an action as soon as no other connection holds a lock that it needs, and return its result.

    SQLite's own wait would hold back handlers of signals, such as that of Ctrl-C, and forks in other threads. A change
    of the journal mode does not wait at all.

    Args:
        action: function that runs a statement; it is called again while the lock is held.
        patience: seconds after which SQLite's error is raised; None for ``BUSY_TIMEOUT``.
    """
    deadline = time.monotonic() + (BUSY_TIMEOUT if patience is None else patience)
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if str(error) not in _LOCKED or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


@contextmanager
def writing(connection: Connection) -> Iterator[None]:
    """Write in one transaction, after those of other connections. An error in the block takes it back."""
    with connection:
        once_free(partial(connection.execute, "BEGIN IMMEDIATE"))
        yield
        once_free(partial(connection.execute, "COMMIT"))


def _without_forks(method: _Method) -> _Method:
    """Return a method of SQLite's classes that runs in a block without forks."""

    @wraps(method)
    def held(*arguments: Any, **options: Any) -> Any:
        with no_forks():
            return method(*arguments, **options)

    return held  # type: ignore[return-value]


class Cursor(sqlite3.Cursor):
    """A cursor that is stepped in blocks without forks."""

    execute = _without_forks(sqlite3.Cursor.execute)
    executemany = _without_forks(sqlite3.Cursor.executemany)
    __next__ = _without_forks(sqlite3.Cursor.__next__)
    fetchone = _without_forks(sqlite3.Cursor.fetchone)
    fetchmany = _without_forks(sqlite3.Cursor.fetchmany)
    fetchall = _without_forks(sqlite3.Cursor.fetchall)

    def __del__(self, program_ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if program_ends():  # module names may be cleared
            return
        # Frees memory of SQLite. A cursor may outlive its connection.
        with no_forks(), suppress(sqlite3.ProgrammingError):
            self.close()


class Connection(sqlite3.Connection):
    """A connection that is opened, used and closed in blocks without forks; see ``once_free`` for its locks."""

    def __init__(self, database: str, *, uri: bool = False, check_same_thread: bool = True) -> None:
        with no_forks():
            super().__init__(
                database, timeout=_STEP, isolation_level=None, check_same_thread=check_same_thread, uri=uri
            )

    __exit__ = _without_forks(sqlite3.Connection.__exit__)
    close = _without_forks(sqlite3.Connection.close)

    def cursor(self) -> Cursor:  # type: ignore[override]
        return super().cursor(Cursor)

    # These methods of the base class do not make their cursors with ``cursor``.
    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        return self.cursor().execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Cursor:
        return self.cursor().executemany(sql, rows)
