"""Connections of SQLite whose calls hold back forks.

SQLite guards its memory and its files with locks of the process. A process that is forked while another thread holds
one waits forever as soon as it opens a store.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from videoloader.runtime.forks import no_forks

_Method = TypeVar("_Method", bound=Callable[..., Any])


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
    """A connection that is opened, used and closed in blocks without forks."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with no_forks():
            super().__init__(*arguments, **options)

    __exit__ = _without_forks(sqlite3.Connection.__exit__)
    close = _without_forks(sqlite3.Connection.close)

    def cursor(self) -> Cursor:  # type: ignore[override]
        return super().cursor(Cursor)

    # These methods of the base class do not make their cursors with ``cursor``.
    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        return self.cursor().execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Cursor:
        return self.cursor().executemany(sql, rows)
