"""Read values of LMDB databases from mapped memory."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from videoloader.errors import SourceError, VideoLoaderError, needs
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.regular_file import check_regular
from videoloader.indexing.sources.state import SourceState, require_same, state_of_file
from videoloader.runtime.forks import after_fork

if TYPE_CHECKING:
    import lmdb

# mdb.c: MDB_MAGIC, which follows the header of the first page.
_MAGIC, _MAGIC_AT = struct.pack("=I", 0xBEEFC0DE), 16


# The databases that this process has open. LMDB allows each only once, and none across a fork.
_open: dict[tuple[str, int, int], lmdb.Environment] = {}
_lock = threading.Lock()


def _start_anew() -> None:
    global _lock
    for inherited in _open.values():
        inherited.close()
    _open.clear()
    _lock = threading.Lock()


after_fork(_start_anew)


def _environment(path: str) -> lmdb.Environment:
    with needs("reading LMDB needs lmdb: pip install 'videoloader[lmdb]'", path):
        import lmdb
    try:
        status = os.stat(_data_file(path))
        check_regular(path, status)
        key = (os.path.realpath(path), status.st_dev, status.st_ino)
        with _lock:
            if key not in _open:
                opened = lmdb.open(
                    path, subdir=os.path.isdir(path), readonly=True, lock=False, readahead=False, create=False
                )
                # Touching mapped memory beyond the end of the file would kill the process.
                needed = (opened.info()["last_pgno"] + 1) * opened.stat()["psize"]
                if status.st_size < needed:
                    opened.close()
                    raise SourceError(f"is cut off: {status.st_size} bytes of {needed}", path)
                _open[key] = opened
            return _open[key]
    except (OSError, lmdb.Error) as error:
        raise SourceError(f"cannot be opened as an LMDB database ({error})", path) from None


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
    environment = _environment(path)
    try:
        with environment.begin(buffers=True) as transaction:
            # The size of a value is known without reading its pages.
            pairs = ((os.fsdecode(bytes(key)), value) for key, value in transaction.cursor())
            return {key: bytes(value) if wanted(key, len(value)) else None for key, value in pairs}
    except Exception as error:  # lmdb's errors have no common base class that is known before it is imported
        raise SourceError(f"cannot be read ({error})", path) from None


class LmdbSource(SourceBase):
    """The value of a key, read from the memory map.

    The database is opened once per process, read-only and without locks, and stays open; nothing may write to it
    meanwhile.

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
        self._read()

    def _read(self) -> None:
        try:
            self._find()
        except VideoLoaderError:
            raise
        except Exception as error:  # lmdb's errors have no common base class that is known before it is imported
            raise SourceError(f"key {self._key!r} cannot be read ({error})", self._path) from None

    def _find(self) -> None:
        environment = _environment(self._path)
        # The transaction keeps the value in place.
        self._transaction = environment.begin(buffers=True)
        value = self._transaction.get(os.fsencode(self._key))
        if value is None:
            cursor = self._transaction.cursor()
            near = bytes(cursor.key()) if cursor.set_range(os.fsencode(self._key)) or cursor.last() else b""
            hint = f"; there is {near.decode(errors='replace')!r}" if near else ""
            raise SourceError(f"has no key {self._key!r} (it has {environment.stat()['entries']}){hint}", self._path)
        status = os.stat(_data_file(self._path))
        self.state = self._state_of(status)
        self.fingerprint = self.state.fingerprint
        self._value = memoryview(value)
        self.size = len(self._value)
        self._pid = os.getpid()
        if self.size > status.st_size:
            raise SourceError(f"is damaged: a value of {self.size} bytes in a file of {status.st_size}", self._path)

    def _mapped(self) -> memoryview:
        if os.getpid() != self._pid:
            self._known = self._known or self.state
            self._read()
        return self._value

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._mapped()[offset : offset + size])

    def _state_of(self, status: os.stat_result) -> SourceState:
        place = blake2b(os.fsencode(self._key), digest_size=16).hexdigest()
        file = state_of_file(status)
        return replace(file, fingerprint=f"{file.fingerprint}-{place}")

    def check_unchanged(self, known: SourceState | None = None) -> None:
        for earlier in (self._known, known):
            require_same(earlier, self.state, self.name)
        try:
            status = os.stat(_data_file(self._path))
        except OSError:  # the file is gone, but its mapped bytes stay as they are
            return
        require_same(self.state, self._state_of(status), self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path, self._key, self._known or self.state)
