"""Read the file of a store, also while others build it."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from videoloader.errors import IndexingError, SourceError, StaleIndexError
from videoloader.indexing.store.connection import once_free
from videoloader.indexing.store.opening import connect_reader, is_being_written, needs_rollback
from videoloader.indexing.store.read_only import Guard
from videoloader.runtime.forks import keep_forever, no_forks

# Attempts to read without locks, if builds end meanwhile.
_WITHOUT_LOCKS = 3
_Result = TypeVar("_Result")


class StoreReader:
    """Connections to a store, one for each thread and process.

    Args:
        path: str. The absolute path of the file.

    Raises:
        SourceError: the file cannot be opened.
        IndexingError: the file is no index store, is damaged, or was made by another version of this library.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.guard = Guard()
        self._local = threading.local()

    def select(
        self, sql: str, parameters: Sequence[object] = (), source: str | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Return the rows of one of the library's own statements, for which an error of SQLite means a damaged file."""
        try:
            return iter(self.with_connection(lambda connection: connection.execute(sql, parameters).fetchall()))
        except sqlite3.Error as error:
            self.guard.raise_if_interrupted(error)
            place = f"the index store {self.path}" if source else "the index store"
            raise IndexingError(f"{place} cannot be read ({error})", source or self.path) from None

    def with_connection(self, use: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Use this thread's connection, and return the result, which must not depend on the connection any more.

        Without locks, a build that ends meanwhile may change the file under a statement, which is then repeated.
        """
        attempts = 0
        while True:
            opened = self._opened(locked=attempts >= _WITHOUT_LOCKS)
            attempts += 1
            try:
                result = once_free(partial(use, opened.connection))
            except sqlite3.Error as error:
                if attempts > _WITHOUT_LOCKS or not (needs_rollback(error) or self._has_changed(opened)):
                    raise
                self._local.opened = None  # connecting undoes an unfinished transaction
            except BaseException:  # of a signal's handler, which may have ended the connection's guard
                self._local.opened = None
                raise
            else:
                if not self._has_changed(opened):
                    return result

    def _opened(self, *, locked: bool) -> OpenedStore:
        """Return this thread's connection; a new one after a fork, or if a file opened as immutable was written to.

        If its build has ended, a store is read without locks, unless ``locked``. If it is being built, or a build was
        killed, readers use SQLite's write-ahead log.
        """
        opened: OpenedStore | None = getattr(self._local, "opened", None)
        now = self._file_state()
        # A writer creates the log first, and changes the file much later.
        state = None if locked or is_being_written(self.path) else now
        if opened and opened.process == os.getpid() and (opened.state is None or opened.state == state):
            return opened
        self._local.opened = opened = OpenedStore(
            connect_reader(self.path, self.guard, immutable=state is not None), state
        )
        return opened

    def inode(self) -> int:
        """Return the number of the file, which a build keeps.

        Raises:
            SourceError: the file is not there.
        """
        return self._file_state()[0]

    def check_not_replaced(self, inode: int) -> None:
        """Raise StaleIndexError if the file has another number now: rows of two stores do not belong together."""
        if self.inode() != inode:
            raise StaleIndexError("the index store was replaced while its rows were read: read them again", self.path)

    def _has_changed(self, opened: OpenedStore) -> bool:
        """Whether the file was written to since a connection without locks was opened."""
        return opened.state is not None and opened.state != self._file_state()

    def _file_state(self) -> tuple[int, int, int]:
        """Return a state that changes when the file does."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            hint = ": build_store of a VideoDataset makes one" if isinstance(error, FileNotFoundError) else ""
            raise SourceError(f"the index store cannot be opened ({error.strerror}){hint}", self.path) from None
        return status.st_ino, status.st_size, status.st_mtime_ns


def rows_by_id(
    reader: StoreReader,
    ask: Callable[[str, tuple[int]], Iterable[tuple[Any, ...]]],
    columns: Iterable[str],
    joined: str = "",
    condition: str = "1",
    at_once: int = 1000,
) -> Iterator[tuple[Any, ...]]:
    """Yield columns of all videos, in the order of their ids.

    A build by another process may end between two statements. No row that it keeps is left out or given twice, since
    such a row keeps its id.

    Args:
        reader: connections to the store.
        ask: returns the rows of a statement with parameters.
        columns: expressions in SQL.
        joined: joins of other tables.
        condition: condition in SQL that rows must meet.
        at_once: number of rows that a statement returns.

    Raises:
        StaleIndexError: another store was put in the place of this one meanwhile.
    """
    wanted = ", ".join(columns)
    page = f"SELECT id, {wanted} FROM videos {joined} WHERE id > ? AND ({condition}) ORDER BY id LIMIT {at_once}"
    last, inode = -1 << 63, reader.inode()
    while rows := list(ask(page, (last,))):
        reader.check_not_replaced(inode)
        last = rows[-1][0]
        for _, *row in rows:
            yield tuple(row)


class OpenedStore:
    """A connection of one thread, closed with its last user.

    Args:
        connection: connection made in this process, by the thread that uses it.
        state: state of a file that was opened as immutable; None if it was not.
    """

    process = 0  # until all is there: a signal's handler may raise in the constructor

    def __init__(self, connection: sqlite3.Connection, state: tuple[int, int, int] | None) -> None:
        self.connection, self.state = connection, state
        self._used = no_forks()
        self.process = os.getpid()

    # Defaults, since the module's names are cleared before its last objects when the interpreter ends.
    def __del__(
        self,
        getpid: Callable[[], int] = os.getpid,
        program_ends: Callable[[], bool] = sys.is_finalizing,
        keep: Callable[[sqlite3.Connection], None] = keep_forever,
        close: Callable[[sqlite3.Connection], None] = sqlite3.Connection.close,
    ) -> None:
        if not self.process:
            return
        # A thread that is in a call as the program ends never leaves it, so closing would wait forever.
        in_call = program_ends() and not self._used.acquire(blocking=False)
        # Connections are part of a reference cycle, and one that lingers keeps builders from removing the log.
        if self.process == getpid() and not in_call:
            if program_ends():  # the names that the connection's own method needs may be gone, too
                close(self.connection)
            else:
                self.connection.close()
        else:
            keep(self.connection)  # in a forked process, closing it would close what the parent is using
