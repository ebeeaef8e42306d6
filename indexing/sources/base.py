"""The source of a video's bytes: one small interface, read by position, safe to share between threads."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


@runtime_checkable
class ByteSource(Protocol):
    """Random access to the bytes of one video.

    Sources can be pickled, and used after a fork: the other process opens its own.
    """

    @property
    def name(self) -> str:
        """Path, URL or other name, for messages."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    @property
    def fingerprint(self) -> str:
        """A short text that changes with the bytes. It is found out when it is first asked for."""

    @property
    def read_through(self) -> int:
        """The gap in bytes between two ranges that costs less to read along than a second read."""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``offset``; fewer only where the source ends.

        It is meant for tables and headers: a remote source may fetch more than that, to have it when it is asked for.

        Raises:
            SourceError: the bytes cannot be had.
        """
        ...

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """The bytes of each range as from ``read``, at once where the source can do that, and no byte more."""
        ...

    def open(self) -> io.BufferedIOBase:
        """An independent file object over the same bytes."""
        ...


class SourceBase:
    """The common behaviour of most sources: near, ranges answered one by one, file objects made of reads."""

    # A page cache hands over this much in the time that another system call takes.
    read_through = 64 << 10

    def read_ranges(self: ByteSource, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        return [self.read(offset, size) for offset, size in zip(offsets, sizes, strict=True)]

    def open(self: ByteSource) -> io.BufferedIOBase:
        return io.BufferedReader(_PositionedFile(self))


class _PositionedFile(io.RawIOBase):
    """A file object that keeps its own position in a source."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._source.read(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}[whence]
        if start + offset < 0:
            raise ValueError(f"seek to byte {start + offset}")
        self._position = start + offset
        return self._position
