"""Bytes of this machine: files and memory."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from videoloader.errors import SourceError
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.state import SourceState, require_same, state_of_file


class FileSource(SourceBase):
    """A local file, read with ``pread``: no seek position, so any number of threads may read at once.

    Args:
        path: of the file.
        known: its state when it was opened before, in this process or another.
    """

    def __init__(self, path: str | os.PathLike[str], known: SourceState | None = None) -> None:
        self.name = os.fspath(path)
        try:
            self._file = open(self.name, "rb", buffering=0)  # noqa: SIM115 - lives as long as the source
            status = os.fstat(self._file.fileno())
        except (OSError, ValueError) as error:
            raise SourceError(
                f"cannot be opened ({error.strerror if isinstance(error, OSError) else error})", self.name
            ) from None
        # The working directory may become another one.
        self._path = self.name if os.path.isabs(self.name) else os.path.abspath(self.name)
        self._status, self._known = status, known
        self.size = status.st_size

    @cached_property
    def state(self) -> SourceState:
        return state_of_file(self._status)

    @property
    def fingerprint(self) -> str:
        return self.state.fingerprint

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size, offset)
        except OSError as error:
            raise SourceError(f"cannot be read at byte {offset} ({error.strerror})", self.name) from None

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        data = super().read_ranges(offsets, sizes)
        self._compare(os.fstat(self._file.fileno()))
        return data

    def check_unchanged(self, known: SourceState | None = None) -> None:
        for earlier in (self._known, known):
            require_same(earlier, self.state, self.name)
        try:
            status = os.stat(self._path)
        except OSError:  # it is gone: what is open stays what it was
            status = os.fstat(self._file.fileno())
        self._compare(status)

    def _compare(self, now: os.stat_result) -> None:
        opened = self._status
        if (opened.st_mtime_ns, opened.st_size, opened.st_ino) != (now.st_mtime_ns, now.st_size, now.st_ino):
            require_same(self.state, state_of_file(now), self.name)

    def open(self) -> io.BufferedIOBase:
        return Path(self.name).open("rb")

    def __reduce__(self) -> tuple[Any, ...]:
        # A descriptor shared over fork or pickle would be a shared fate: the other process opens its own.
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

    def check_unchanged(self, known: SourceState | None = None) -> None:
        require_same(known, self.state, self.name)

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def open(self) -> io.BufferedIOBase:
        return io.BytesIO(self._data)
