"""Read a remote file from front to back in few requests."""

from __future__ import annotations

from videoloader.indexing.sources.base import ByteSource, SourceBase
from videoloader.indexing.sources.remote import RemoteSource

# Sizes of the first window, of a window after a jump (which also holds the end of a tar), and of the largest.
_FIRST, _AFTER_JUMP, _LARGEST = 64 << 10, 16 << 10, 4 << 20


class ForwardSource(SourceBase):
    """A remote source for one thread that reads a file's headers in order, and little else.

    If the next header is near, the bytes in between are read too, in windows that grow. If it is far, a small window is
    fetched there. So files of small parts take one request for each 4 MiB, and others one for each part.

    Args:
        source: file to read.
    """

    def __init__(self, source: RemoteSource) -> None:
        self.name, self.size, self.fingerprint = source.name, source.size, source.fingerprint
        self.read_through = source.read_through
        self._source = source
        self._start, self._window, self._last, self._length = 0, b"", 0, _FIRST // 2

    def read(self, offset: int, size: int) -> bytes:
        stop = min(offset + size, self.size)
        if offset >= stop:
            return b""
        if not self._start <= offset < stop <= self._start + len(self._window):
            is_near = abs(offset - self._last) <= self.read_through
            self._length = min(max(2 * self._length, _FIRST), _LARGEST) if is_near else _AFTER_JUMP
            length = min(max(self._length, stop - offset), self.size - offset)
            (self._window,) = self._source.read_ranges([offset], [length])
            self._start = offset
        self._last = stop
        return self._window[offset - self._start : stop - self._start]


def forward(source: ByteSource) -> ByteSource:
    """Return a source that is best for one thread to read from front to back."""
    return ForwardSource(source) if isinstance(source, RemoteSource) else source
