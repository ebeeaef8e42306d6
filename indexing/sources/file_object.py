"""Read the bytes of a file object that the caller opened."""

from __future__ import annotations

import io
import os
import tempfile
import threading
import uuid
from typing import Any, BinaryIO, cast

from videoloader.errors import ConfigurationError, SourceError, VideoLoaderError, system_reason
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.local import FileSource
from videoloader.indexing.sources.regular_file import from_here
from videoloader.indexing.sources.state import SourceState, require_same, state_of_file

_PLAIN = (io.BufferedReader, io.BufferedRandom, io.FileIO)


class FileObjectSource(SourceBase):
    """All bytes of a seekable binary file object, wherever its position is.

    The object must stay open as long as the source is used, and nothing else may use its position. Plain files are read
    without their position; other objects are read by one thread at a time, and only in the process in which they were
    opened.

    Args:
        file: binary file. An object with ``read``, ``seek`` and ``seekable``.

    Raises:
        ConfigurationError: the file was opened as text.
        SourceError: the file cannot seek, or is closed.
    """

    def __init__(self, file: BinaryIO) -> None:
        name = getattr(file, "name", None)
        self.name = name if isinstance(name, str) and name else "<file>"
        if isinstance(file, tempfile._TemporaryFileWrapper):
            file = cast(BinaryIO, file.file)
        self._file = file
        self._lock, self._pid = threading.Lock(), os.getpid()
        # Only for these types is it certain that the file descriptor has the same bytes as the object.
        self._is_plain = type(getattr(file, "raw", file)) is io.FileIO and type(file) in _PLAIN
        try:
            seekable = getattr(file, "seekable", None)
            if seekable is not None and not seekable():
                raise SourceError("is a file object that cannot seek", self.name)
            end: int | None = file.seek(0, io.SEEK_END)
            self.size = file.tell() if end is None else end  # None as of mmap in Python 3.12
            if not isinstance(file.read(0), bytes):
                raise ConfigurationError("is a file object opened as text: open it with mode 'rb'", self.name)
            status = os.fstat(file.fileno()) if self._is_plain else None
        except (VideoLoaderError, MemoryError, AttributeError):  # the last one is of what is no file object
            raise
        except Exception as error:  # readers of compressed files raise errors of their own
            raise_of_handler(error)
            raise SourceError(f"cannot be read ({system_reason(error)})", self.name) from None
        # What is behind any other object is unknown, so it never counts as something seen before.
        unknown = SourceState(f"{self.size}-{uuid.uuid4().hex}", compared=False)
        self.state = state_of_file(status) if status else unknown
        self.fingerprint = self.state.fingerprint

    def read(self, offset: int, size: int) -> bytes:
        try:
            if self._is_plain:
                data = os.pread(self._file.fileno(), size, offset)
            elif os.getpid() != self._pid:
                raise SourceError("is a file object of another process: give its path or its bytes", self.name)
            else:
                with self._lock:
                    self._file.seek(offset)
                    data = self._read_all(size)
        except (VideoLoaderError, MemoryError):
            raise
        except Exception as error:  # as above; and an object that returns no bytes is a TypeError
            raise_of_handler(error)
            raise SourceError(f"cannot be read at byte {offset} ({system_reason(error)})", self.name) from None
        if len(data) > size:  # libavformat would write the rest behind its buffer
            raise SourceError(f"cannot be read at byte {offset}: {len(data)} bytes came instead of {size}", self.name)
        if len(data) < size and offset + len(data) < self.size:
            self.check_unchanged()
            raise SourceError(f"cannot be read at byte {offset}: only {len(data)} of {size} bytes came", self.name)
        return data

    def _read_all(self, size: int) -> bytes:
        # Unbuffered objects may return less than asked for before their end, or None where they would block.
        data = b""
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        return data

    def check_unchanged(self, known: SourceState | None = None) -> None:
        require_same(known, self.state, self.name)
        if self._is_plain:
            try:
                require_same(self.state, state_of_file(os.fstat(self._file.fileno())), self.name)
            except (OSError, ValueError) as error:
                raise_of_handler(error)
                raise SourceError(f"cannot be read ({error})", self.name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            if self._is_plain and os.path.samestat(os.stat(self.name), os.fstat(self._file.fileno())):
                return FileSource, (from_here(self.name), self.state)
        except (OSError, ValueError):
            pass
        raise ConfigurationError("is a file object, which no other process can open: give a path or bytes", self.name)
