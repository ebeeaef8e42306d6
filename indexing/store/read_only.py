"""Restrict what a statement on a store may do: only read, within limits of time and memory.

Statements come from users, and the store may come from anyone.
"""

from __future__ import annotations

import marshal
import math
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from videoloader.errors.checks import check_type

# Pragmas that only report on the store, with an argument or without.
_PRAGMAS = {"integrity_check", "quick_check", "table_info", "table_list", "table_xinfo"}
_UNSAFE_FUNCTIONS = {"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"}
# Names for denied actions where SQLite's own words say little.
_ACTIONS = {
    sqlite3.SQLITE_ATTACH: "ATTACH, as VACUUM does,",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA {}",
    sqlite3.SQLITE_FUNCTION: "the function {1}",
    sqlite3.SQLITE_TRANSACTION: "{}",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
}
# Steps of SQLite's virtual machine between checks of the time. In so many, a statement makes about a thousand rows.
_STEPS = 1 << 14
# Limits in bytes for one value and for all rows of a statement. Facts of videos are short, and functions such as instr,
# which cannot be ended, take time with the square of a value's length.
_LARGEST_VALUE, _LARGEST_RESULT = 1 << 16, 1 << 30
_ROW, _VALUE = 64, 48  # bytes of a tuple in a list, and of an object in a tuple
_ROWS_AT_ONCE = 1 << 12
# Actions whose answer is kept: more than there are columns and functions.
_MOST_ACTIONS = 512
_DENIED = 23  # SQLITE_AUTH, which Python 3.10 does not tell
_MOST_AGAIN = 8  # times that a statement is begun


class Guard(threading.local):
    """SQLite's authorizer and progress handler for the connections of a thread.

    Connections may only read. Users' statements are limited in what they use, in time, and in size, too.
    """

    def __init__(self) -> None:
        self._reason = ""
        self._raised: BaseException | None = None
        self._deadline = self._seconds = math.inf

    def watch(self, connection: sqlite3.Connection) -> None:
        """Guard a connection to a store from now on."""
        if sys.version_info < (3, 11):
            connection.set_authorizer(_allow)
        looks = self._looks()
        next(looks)
        connection.set_progress_handler(looks.__next__, _STEPS)

    def run(
        self, connection: sqlite3.Connection, sql: str, parameters: Sequence[object], seconds: float
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a user's statement, which may take at most this many seconds.

        Raises:
            ArgumentError: the values are not in a list, tuple or dict, or one is of a type that SQLite does not know.
            sqlite3.Error: the statement is refused, or ended; the message says why.
        """
        check_type(
            "parameters", parameters, isinstance(parameters, list | tuple | dict), "a list with a value for each ?"
        )
        named = parameters if isinstance(parameters, dict) else dict(enumerate(parameters))
        values = {name: _as_value(name, value) for name, value in named.items()}
        self._reason = _denial.reason = ""
        self._seconds, self._deadline = seconds, time.monotonic() + seconds
        given = values if isinstance(parameters, dict) else tuple(values.values())
        again = _MOST_AGAIN
        try:
            with _restricted(connection):
                while True:
                    try:
                        return self._fetch(connection.execute(sql, given))
                    except sqlite3.Error as error:
                        reason, again = self._reason or _denial.reason, again - 1
                        # Denied without a reason: a signal's handler raised where SQLite loses it.
                        if again and not reason and getattr(error, "sqlite_errorcode", 0) == _DENIED:
                            continue
                        if not reason:
                            self.raise_if_interrupted(error)
                        raise sqlite3.OperationalError(reason or str(error)) from None
        finally:
            self._deadline = math.inf

    def _fetch(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        size = 0
        while some := cursor.fetchmany(_ROWS_AT_ONCE):
            rows += some
            # The quickest way to estimate their size: what they hold, and Python's objects for it.
            size += len(marshal.dumps(some)) + len(some) * (_ROW + _VALUE * len(some[0]))
            if size > _LARGEST_RESULT:
                raise sqlite3.OperationalError(f"its rows take more than {_LARGEST_RESULT >> 20} MiB")
        return rows

    def raise_if_interrupted(self, error: sqlite3.Error) -> None:
        """Raise what a signal's handler raised during a statement, such as KeyboardInterrupt, which ended it."""
        if str(error) == "interrupted":
            raised, self._raised = self._raised or KeyboardInterrupt(), None
            raise raised from None

    def _looks(self) -> Iterator[bool]:
        """Yield, at each look, whether to end a statement. What a signal's handler raises is kept, and ends it.

        SQLite loses what its progress handler raises. A function could not keep what comes before its first line, which
        is where Python runs the handler of a signal that came during the statement.
        """
        is_late = False
        while True:
            try:  # around the inner loop, whose jump back is another place where Python runs handlers
                while True:
                    yield is_late
                    is_late = self._is_late()
            except BaseException as error:
                traceback = error.__traceback__
                if isinstance(error, GeneratorExit) and (traceback is None or traceback.tb_next is None):
                    raise  # the generator is closed
                self._raised, is_late = error, True

    def _is_late(self) -> bool:
        if time.monotonic() <= self._deadline:
            return False
        self._reason = f"it takes longer than timeout={self._seconds:g} seconds"
        return True


def _as_value(name: object, value: object) -> object:
    """A parameter as Python's type. From an array, and from a scalar of NumPy, SQLite would take the bytes."""
    if isinstance(value, np.generic):
        value = value.item()
    is_plain = value is None or isinstance(value, int | float | str | bytes)
    check_type(f"parameters[{name!r}]", value, is_plain, "a number, a text, bytes or None")
    return value


# Why SQLite was last denied an action, in each thread.
_denial = threading.local()


@lru_cache(_MOST_ACTIONS)
def _allow(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow an action of a statement. An error means to SQLite that it is denied.

    Known actions run no Python code. An exception of a signal's handler there would be lost, and the action denied.
    """
    if (
        action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
        or (action == sqlite3.SQLITE_FUNCTION and second not in _UNSAFE_FUNCTIONS)
        or (action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS)
    ):
        return sqlite3.SQLITE_OK
    denied = _ACTIONS.get(action, "what writes, or reads elsewhere,").format(first, second)
    _denial.reason = f"{denied} is not allowed: statements only read the tables of this store"
    raise PermissionError(_denial.reason)


@contextmanager
def _restricted(connection: sqlite3.Connection) -> Iterator[None]:
    """Allow only actions that read the store, and limit the length of a value.

    The library's own statements are not restricted, since SQLite loses what a signal's handler raises while it asks
    whether an action is allowed. Before Python 3.11 all are, because an authorizer cannot be taken back, and only
    SQLite's own limit of 1 GB applies.
    """
    if sys.version_info < (3, 11):
        yield
        return
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    connection.set_authorizer(_allow)
    try:
        yield
    finally:
        connection.set_authorizer(None)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)
