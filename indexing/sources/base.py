"""``ByteSource``: the interface to a video's bytes, read by position and shared by threads."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# ``ByteSource.read_through`` of sources whose reads are short: a page cache delivers this much in the time of another
# system call.
NEAR = 64 << 10


@runtime_checkable
class ByteSource(Protocol):
    """Random access to the bytes of one video.

    Sources can be pickled, and can be used after a fork: each process opens its own.
    """

    @property
    def name(self) -> str:
        """The path, URL or other name, for messages."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    @property
    def fingerprint(self) -> str:
        """A short text that changes with the bytes. It is computed when it is first asked for."""

    @property
    def read_through(self) -> int:
        """The largest gap in bytes between two ranges that is cheaper to read than to skip with a second read."""

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly ``size`` bytes from ``offset``; fewer only where the source ends.

        This is meant for tables and headers: a remote source may fetch more than it is asked for, and keep it for
        later.

        Raises:
            SourceError: the bytes cannot be read.
        """
        ...

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each range as ``read`` does, but fetch no others, and all at once if the source can."""
        ...

    def open(self) -> io.BufferedIOBase:
        """Return an independent file object over the same bytes."""
        ...


class SourceBase:
    """Common behaviour of most sources: short distances, ranges read one by one, and file objects made from reads."""

    read_through = NEAR

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


def read_starts(source: ByteSource, offsets: Sequence[int], sizes: Sequence[int], most: int) -> Iterable[bytes]:
    """Return the first bytes of several ranges, at most this many of each."""
    sizes = [min(size, most) for size in sizes]
    # From a server, one ``read`` may bring the bytes of several ranges; elsewhere they cost less all at once.
    return source.read_ranges(offsets, sizes) if source.read_through <= NEAR else map(source.read, offsets, sizes)


def is_number(member: str) -> bool:
    """Whether a member's name is a number that a record can have."""
    return member.isascii() and member.isdigit() and len(member) < 20
