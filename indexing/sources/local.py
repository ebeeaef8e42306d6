"""Read local files and bytes in memory."""

from __future__ import annotations

import io
import os
import resource
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from itertools import repeat
from operator import ne
from typing import Any

from videoloader.errors import SourceError, system_reason
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.regular_file import from_here, open_with_status
from videoloader.indexing.sources.state import SourceState, require_same, state_of_file
from videoloader.runtime.cached_property import cached_property

# How many bytes of each end of a source in memory, and of what lies between, its sampled state depends on.
_SAMPLED = 1 << 16


class _OpenFile(io.FileIO):
    """A file that is closed when its last reader releases it."""

    # Not a Python function, which Ctrl-C could interrupt: Python only prints exceptions raised there.
    __del__ = io.FileIO.close


# The files of this process that were read last, by a key of each source. Others are closed, and opened again when they
# are read. Each access to the dictionary is a single operation, so there is no lock, which a garbage collection or a
# fork could find taken. With each file goes a weak reference that removes it when its source is gone, again without a
# Python function.
_open_files: OrderedDict[object, tuple[_OpenFile, weakref.ref[FileSource]]] = OrderedDict()


@cache
def most_open_files() -> int:
    """Return a quarter of the process's limit on open files, asked once: the rest is for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft // 4, 1) if 0 <= soft < 1 << 14 else 1 << 12


class FileSource(SourceBase):
    """A local file, read with ``pread``: it has no seek position, so any number of threads may read at once.

    Any number of sources may be in use, but only the files read last are kept open. A file that is opened again must be
    in the same state as when it was first opened.

    Args:
        path: str or path. The path of the file.
        known: SourceState, default None. Its state when it was opened before, in this process or another.
    """

    _files = _open_files

    def __init__(self, path: str | os.PathLike[str], known: SourceState | None = None) -> None:
        self._key, self.name = object(), os.fspath(path)
        self._path = from_here(self.name)
        file, self._status = self._open_file()
        self._known = known
        self._keep(file)
        self.size = self._status.st_size

    def _open_file(self) -> tuple[_OpenFile, os.stat_result]:
        try:
            descriptor, status = open_with_status(self._path, os.O_RDONLY)
            return _OpenFile(descriptor), status
        except (OSError, ValueError) as error:
            hint = ""
            if self.name.startswith("~"):
                hint = ": os.path.expanduser(path) expands ~"
            elif self.name != self.name.rstrip():
                hint = ": the path ends with white space"
            raise SourceError(f"cannot be opened ({system_reason(error)}){hint}", self.name) from None

    def _keep(self, file: _OpenFile) -> None:
        self._files[self._key] = file, weakref.ref(self, partial(self._files.pop, self._key))
        while len(self._files) > most_open_files():
            with suppress(KeyError):  # other threads close files, too
                self._files.popitem(last=False)

    def _file(self) -> _OpenFile:
        """Return the file, which stays open as long as the caller holds it, whatever other sources do."""
        kept = self._files.get(self._key)
        if kept is None:
            file, status = self._open_file()
            self._compare(status)
            self._keep(file)
            return file
        try:  # noqa: SIM105 - ``suppress`` takes as long as the rest, and this runs for each read
            self._files.move_to_end(self._key)
        except KeyError:  # another thread has closed it
            pass
        return kept[0]

    @cached_property
    def state(self) -> SourceState:
        return state_of_file(self._status)

    @property
    def fingerprint(self) -> str:
        return self.state.fingerprint

    def read(self, offset: int, size: int) -> bytes:
        return self._read(self._file(), offset, size)

    def _read(self, file: _OpenFile, offset: int, size: int) -> bytes:
        try:
            data = os.pread(file.fileno(), size, offset)
        except OSError as error:
            raise SourceError(f"cannot be read at byte {offset} ({error.strerror})", self.name) from None
        if len(data) < size and offset + len(data) < self.size:  # no reader may take this for the end of the file
            self._compare(self._status_of(file))
            raise SourceError(f"cannot be read at byte {offset}: only {len(data)} of {size} bytes came", self.name)
        return data

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        file = self._file()
        descriptor = file.fileno()
        try:
            data = list(map(os.pread, repeat(descriptor), sizes, offsets))
        except OSError:
            data = []
        if len(data) < len(sizes) or any(map(ne, map(len, data), sizes)):
            # Tell which cannot be read, or only ends where the file does.
            data = list(map(partial(self._read, file), offsets, sizes))
        self._compare(self._status_of(file))
        return data

    def _status_of(self, file: _OpenFile) -> os.stat_result:
        try:
            return os.fstat(file.fileno())
        except OSError as error:  # on a network file system
            raise SourceError(f"cannot be examined ({error.strerror})", self.name) from None

    def check_unchanged(self, known: SourceState | None = None) -> None:
        for earlier in (self._known, known):
            if earlier is not None:
                require_same(earlier, self.state, self.name)
        try:
            status = os.stat(self._path)
        except OSError:  # the file is gone, but an open one stays as it is
            status = self._status_of(self._file())
        self._compare(status)

    def _compare(self, now: os.stat_result) -> None:
        opened = self._status
        if (opened.st_mtime_ns, opened.st_size, opened.st_ino) != (now.st_mtime_ns, now.st_size, now.st_ino):
            require_same(self.state, state_of_file(now), self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Processes must not share a descriptor over a fork or a pickle, so the other process opens its own.
        return type(self), (self.name, self._known or self.state)


class MemorySource(SourceBase):
    """Bytes already in memory."""

    def __init__(self, data: bytes, name: str = "<bytes>") -> None:
        self.name = name
        self.size = len(data)
        self._data = data

    @cached_property
    def fingerprint(self) -> str:
        return f"{self.size}-{blake2b(self._data, digest_size=16).hexdigest()}"

    @property
    def state(self) -> SourceState:
        return SourceState(self.fingerprint)

    @cached_property
    def sampled_state(self) -> SourceState:
        """A state that suffices to tell other videos. A hash of all bytes takes ten times as long as indexing them."""
        sampled = blake2b(self._data[:: max(self.size // _SAMPLED, 1)], digest_size=16)
        sampled.update(self._data[:_SAMPLED])
        sampled.update(self._data[-_SAMPLED:])
        return SourceState(f"{self.size}-sampled-{sampled.hexdigest()}")

    def check_unchanged(self, known: SourceState | None = None) -> None:
        if known is not None and known.fingerprint != self.sampled_state.fingerprint:
            require_same(known, self.state, self.name)

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def open(self) -> io.BufferedIOBase:
        return io.BytesIO(self._data)
