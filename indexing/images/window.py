"""Read one image file in small pieces, up to the facts that it states before its picture."""

from __future__ import annotations

from typing import NamedTuple

from videoloader.errors import IndexingError, SourceError
from videoloader.indexing.sources.base import ByteSource

# Bytes of one read: the header of most files, and no more than a page of the disk cache.
_WINDOW = 1024


class ImageHeader(NamedTuple):
    """The facts of one image file.

    Attributes:
        codec: libavcodec's decoder name.
        width, height: size of the coded picture in pixels.
        orientation: turn that a viewer applies, 1 to 8 (Exif 2.32, tag 0x0112); 1 is none.
        animated: whether the file has more than one picture to show.
    """

    codec: str
    width: int
    height: int
    orientation: int = 1
    animated: bool = False


class Window:
    """The bytes of one image file, wherever they lie in a source.

    Args:
        source: source that contains the file.
        begin: byte offset of the file in the source.
        size: size of the file in bytes.
        name: name of the file, for messages.
    """

    def __init__(self, source: ByteSource, begin: int, size: int, name: str) -> None:
        self.size = size
        self.name = name
        self._source, self._begin = source, begin
        self._position, self._data = 0, source.read(begin, min(size, _WINDOW))

    def read(self, position: int, size: int) -> bytes:
        """Return exactly these bytes of the file.

        Raises:
            IndexingError: the file ends before.
            SourceError: the source ends before.
        """
        start = position - self._position
        if start < 0 or start + size > len(self._data):
            if position + size > self.size:
                raise IndexingError(f"is cut off: its header continues at byte {position}", self.name)
            wanted = min(max(size, _WINDOW), self.size - position)
            self._position, self._data = position, self._source.read(self._begin + position, wanted)
            if len(self._data) < wanted:
                raise SourceError(f"has become shorter while its header was read, at byte {position}", self.name)
            start = 0
        return self._data[start : start + size]

    def start(self) -> bytes:
        """Return the first bytes, as many as one read brings."""
        return self.read(0, min(self.size, _WINDOW))
