"""Connections of SQLite whose calls hold back forks.

SQLite guards its memory and its files with locks of the process. A process that is forked while another thread holds
one waits forever as soon as it opens a store.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from videoloader.runtime.forks import no_forks


class Cursor(sqlite3.Cursor):
    """A cursor that is stepped in blocks without forks."""

    def execute(self, *arguments: Any) -> Cursor:
        with no_forks():
            super().execute(*arguments)
        return self

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Cursor:
        with no_forks():
            super().executemany(sql, rows)
        return self

    def __next__(self) -> Any:
        with no_forks():
            return super().__next__()

    def fetchone(self) -> Any:
        with no_forks():
            return super().fetchone()

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        with no_forks():
            return super().fetchmany(size)

    def fetchall(self) -> list[Any]:
        with no_forks():
            return super().fetchall()

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

    def cursor(self) -> Cursor:  # type: ignore[override]
        return super().cursor(Cursor)

    # These methods of the base class do not make their cursors with ``cursor``.
    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        return self.cursor().execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Cursor:
        return self.cursor().executemany(sql, rows)

    def __exit__(self, *error: Any) -> Any:
        with no_forks():
            return super().__exit__(*error)

    def close(self) -> None:
        with no_forks():
            super().close()
