"""Bytes of this machine: files and memory."""

from __future__ import annotations

import io
import os
from pathlib import Path

from videoloader.errors import SourceError


class FileSource:
    """A local file, read with ``pread``: no seek position, so any number of threads may read at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        try:
            self._file = open(self.name, "rb", buffering=0)  # noqa: SIM115 - lives as long as the source
            self.size = os.fstat(self._file.fileno()).st_size
        except (OSError, ValueError) as error:
            raise SourceError(
                f"cannot be opened ({error.strerror if isinstance(error, OSError) else error})", self.name
            ) from None

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size, offset)
        except OSError as error:
            raise SourceError(f"cannot be read at byte {offset} ({error.strerror})", self.name) from None

    def open(self) -> io.BufferedIOBase:
        return Path(self.name).open("rb")

    def __getstate__(self) -> str:
        # A descriptor shared over fork or pickle would be a shared fate: the other process opens its own.
        return self.name

    def __setstate__(self, name: str) -> None:
        self.__init__(name)  # type: ignore[misc]


class MemorySource:
    """Bytes already in memory."""

    def __init__(self, data: bytes, name: str = "<bytes>") -> None:
        self.name = name
        self.size = len(data)
        self._data = data

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def open(self) -> io.BufferedIOBase:
        return io.BytesIO(self._data)
