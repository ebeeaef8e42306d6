"""Read a part of another source, such as a member of an archive, in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from videoloader.indexing.sources.base import ByteSource, SourceBase
from videoloader.indexing.sources.local import FileSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.state import Place, SourceState, check_unchanged, require_same, state_of


class PartSource(SourceBase):
    """The bytes ``[offset, offset + size)`` of another source.

    Args:
        source: ByteSource. The source that holds the bytes.
        offset, size: int. The position and size of the part in bytes; it must lie inside the source.
        name: str. The name for messages.
        crc: int, default None. The CRC-32 that its bytes should have. Reading ranges does not check it.

    Attributes:
        whole: ByteSource. The source that contains the part.
    """

    def __init__(self, source: ByteSource, offset: int, size: int, name: str, crc: int | None = None) -> None:
        self.name, self.size, self.read_through = name, size, source.read_through
        self.whole, self._offset, self.crc = source, offset, crc

    @property
    def fingerprint(self) -> str:
        return f"{self.whole.fingerprint}-{self._offset}-{self.size}"

    @property
    def place(self) -> Place | None:
        """The position of these bytes in a file; None if the other source is no file."""
        is_file = isinstance(self.whole, FileSource | RemoteSource)
        return Place(self.whole.name, self._offset, self.size) if is_file else None

    @property
    def state(self) -> SourceState | None:
        whole = state_of(self.whole)
        return whole and replace(whole, fingerprint=f"{whole.fingerprint}-{self._offset}-{self.size}")

    def check_unchanged(self, known: SourceState | None = None) -> None:
        check_unchanged(self.whole)
        if (state := self.state) is not None:
            require_same(known, state, self.name)

    def read(self, offset: int, size: int) -> bytes:
        size = min(size, self.size - offset)
        return self.whole.read(self._offset + offset, size) if size > 0 else b""

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        starts = [min(offset, self.size) for offset in offsets]
        lengths = [min(size, self.size - start) for start, size in zip(starts, sizes, strict=True)]
        return self.whole.read_ranges([self._offset + start for start in starts], lengths)
