"""Read values of LMDB databases from mapped memory."""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from videoloader.errors import SourceError, StaleIndexError, VideoLoaderError, needs
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.local import most_open_files
from videoloader.indexing.sources.regular_file import check_regular, from_here
from videoloader.indexing.sources.state import SourceState, require_same, state_of_file
from videoloader.runtime.forks import after_fork, free_after_fork

if TYPE_CHECKING:
    import lmdb

# mdb.c: MDB_MAGIC, which follows the header of the first page.
_MAGIC, _MAGIC_AT = struct.pack("=I", 0xBEEFC0DE), 16


T = TypeVar("T")

# A path, and the device, inode, size and time of change of its data file. New files may have inodes of deleted ones.
_Place: TypeAlias = tuple[str, int, int, int, int]

# The databases that were read last. Others are closed when no thread reads them, and opened again when they are read.
_MOST_KEPT = 64
_kept: OrderedDict[_Place, lmdb.Environment] = OrderedDict()
# All that are open: LMDB allows a process to open each only once, and none across a fork.
_open: weakref.WeakValueDictionary[_Place, lmdb.Environment] = weakref.WeakValueDictionary()
_lock = free_after_fork(threading.RLock())  # a signal's handler may use the library, too
# Seconds to wait for another thread that is about to close a database.
_PATIENCE = 1.0


def _start_anew() -> None:
    for inherited in list(_open.values()):
        inherited.close()
    _open.clear()
    _kept.clear()


after_fork(_start_anew)


def _database(path: str) -> tuple[_Place, lmdb.Environment]:
    with needs("reading LMDB needs lmdb: pip install 'videoloader[lmdb]'", path):
        import lmdb
    try:
        status = os.stat(_data_file(path))
        check_regular(path, status)
        place = os.path.realpath(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        with _lock:
            opened = _open.get(place)
            # Other threads, and signals' handlers, read meanwhile, and change the order.
            for earlier in [each for each in list(_kept) if each[0] == place[0] and each != place]:
                # LMDB goes by paths, too: as long as that one is open, no other is opened here.
                _kept.pop(earlier, None)
            if opened is None:
                opened = _opened_here(path)
                # Touching mapped memory beyond the end of the file would kill the process.
                needed = (opened.info()["last_pgno"] + 1) * opened.stat()["psize"]
                if status.st_size < needed:
                    opened.close()
                    raise SourceError(f"is cut off: {status.st_size} bytes of {needed}", path)
                _open[place] = opened
            _kept[place] = opened
            _kept.move_to_end(place)
            while len(_kept) > min(_MOST_KEPT, most_open_files()):
                _kept.popitem(last=False)
        return place, opened
    except (OSError, lmdb.Error) as error:
        raise SourceError(f"cannot be opened as an LMDB database ({error})", path) from None


def _opened_here(path: str) -> lmdb.Environment:
    import lmdb

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return lmdb.open(path, subdir=os.path.isdir(path), readonly=True, lock=False, readahead=False, create=False)
        except lmdb.Error as error:
            if "already open" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.001)


def _data_file(path: str) -> str:
    return os.path.join(path, "data.mdb") if os.path.isdir(path) else path


def is_lmdb(head: bytes) -> bool:
    """Whether a file begins like the data file of a database."""
    return head[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC


def read_lmdb(path: str, wanted: Callable[[str, int], bool]) -> dict[str, bytes | None]:
    """Return the keys of a database in order, with the values that are wanted.

    Args:
        path: folder or data file of the database.
        wanted: whether the value of a key, with its size, is wanted.

    Raises:
        ConfigurationError: the package lmdb is not installed.
        SourceError: the database cannot be opened or read.
    """
    _, environment = _database(path)
    try:
        with environment.begin(buffers=True) as transaction:
            # The size of a value is known without reading its pages.
            pairs = ((os.fsdecode(bytes(key)), value) for key, value in transaction.cursor())
            return {key: bytes(value) if wanted(key, len(value)) else None for key, value in pairs}
    except Exception as error:  # lmdb's errors have no common base class that is known before it is imported
        raise SourceError(f"cannot be read ({error})", path) from None


class LmdbSource(SourceBase):
    """The value of a key, read from the memory map.

    The database is opened read-only and without locks; nothing may write to it meanwhile. A process keeps those open
    that it read last. A database that is opened again must be in the same state as when it was first opened.

    Args:
        path: str. The folder or data file of the database.
        key: str. The key of the value, as UTF-8; other bytes are escaped as in file paths.
        known: SourceState, default None. Its state when it was opened before, in this process or another.

    Raises:
        ConfigurationError: the package lmdb is not installed.
        SourceError: the database cannot be opened, or has no such key.
    """

    def __init__(self, path: str, key: str, known: SourceState | None = None) -> None:
        self.name = f"{path}::{key}"
        self._path, self._key, self._known = path, key, known
        self._place, environment = _database(path)
        self._file = _data_file(from_here(path))
        self.size = self._with_value(environment, len)
        try:
            status = os.stat(self._file)
        except OSError as error:
            raise SourceError(f"cannot be opened ({error.strerror})", path) from None
        self.state = self._state_of(status)
        self.fingerprint = self.state.fingerprint
        if self.size > status.st_size:
            raise SourceError(f"is damaged: a value of {self.size} bytes in a file of {status.st_size}", path)

    def _with_value(self, environment: lmdb.Environment, use: Callable[[memoryview], T]) -> T:
        """Return ``use`` of the value, which lies in the memory map."""
        try:
            with environment.begin(buffers=True) as transaction:  # it keeps the value in place
                value = transaction.get(os.fsencode(self._key))
                if value is None:
                    raise self._has_no_key(transaction)
                return use(memoryview(value))
        except VideoLoaderError:
            raise
        except Exception as error:  # lmdb's errors have no common base class that is known before it is imported
            raise SourceError(f"key {self._key!r} cannot be read ({error})", self._path) from None

    def _has_no_key(self, transaction: lmdb.Transaction) -> SourceError:
        cursor = transaction.cursor()
        near = bytes(cursor.key()) if cursor.set_range(os.fsencode(self._key)) or cursor.last() else b""
        hint = f"; there is {near.decode(errors='replace')!r}" if near else ""
        return SourceError(f"has no key {self._key!r} (it has {transaction.stat()['entries']}){hint}", self._path)

    def _environment(self) -> lmdb.Environment:
        """Return the database, which stays open as long as the caller holds it, whatever other sources do."""
        try:
            kept = _kept[self._place]
            _kept.move_to_end(self._place)
        except KeyError:  # it has been closed, or the process was forked
            place, kept = _database(self._place[0])
            if place != self._place:
                raise StaleIndexError("has changed since it was opened", self.name) from None
        return kept

    def read(self, offset: int, size: int) -> bytes:
        return self._with_value(self._environment(), lambda value: bytes(value[offset : offset + size]))

    def _state_of(self, status: os.stat_result) -> SourceState:
        place = blake2b(os.fsencode(self._key), digest_size=16).hexdigest()
        file = state_of_file(status)
        return replace(file, fingerprint=f"{file.fingerprint}-{place}")

    def check_unchanged(self, known: SourceState | None = None) -> None:
        for earlier in (self._known, known):
            require_same(earlier, self.state, self.name)
        try:
            status = os.stat(self._file)
        except OSError:  # the file is gone, but its mapped bytes stay as they are
            return
        require_same(self.state, self._state_of(status), self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path, self._key, self._known or self.state)
