"""Bytes of this machine: files and memory."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from videoloader.errors import SourceError

# A page cache hands over this much in the time that another system call takes.
_READ_THROUGH = 64 << 10


class FileSource:
    """A local file, read with ``pread``: no seek position, so any number of threads may read at once."""

    read_through = _READ_THROUGH

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        try:
            self._file = open(self.name, "rb", buffering=0)  # noqa: SIM115 - lives as long as the source
            status = os.fstat(self._file.fileno())
        except (OSError, ValueError) as error:
            raise SourceError(
                f"cannot be opened ({error.strerror if isinstance(error, OSError) else error})", self.name
            ) from None
        self.size = status.st_size
        self.fingerprint = f"{status.st_size}-{status.st_mtime_ns}"

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size, offset)
        except OSError as error:
            raise SourceError(f"cannot be read at byte {offset} ({error.strerror})", self.name) from None

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        return [self.read(offset, size) for offset, size in zip(offsets, sizes, strict=True)]

    def open(self) -> io.BufferedIOBase:
        return Path(self.name).open("rb")

    def __getstate__(self) -> str:
        # A descriptor shared over fork or pickle would be a shared fate: the other process opens its own.
        return self.name

    def __setstate__(self, name: str) -> None:
        self.__init__(name)  # type: ignore[misc]


class MemorySource:
    """Bytes already in memory."""

    read_through = _READ_THROUGH

    def __init__(self, data: bytes, name: str = "<bytes>") -> None:
        self.name = name
        self.size = len(data)
        self._data = data

    @cached_property
    def fingerprint(self) -> str:
        return f"{self.size}-{blake2b(self._data, digest_size=16).hexdigest()}"

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        return [self.read(offset, size) for offset, size in zip(offsets, sizes, strict=True)]

    def open(self) -> io.BufferedIOBase:
        return io.BytesIO(self._data)
