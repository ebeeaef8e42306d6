"""Where the bytes of a video come from: one small interface, read by position, safe to share between threads."""

from __future__ import annotations

import io
from typing import Protocol


class ByteSource(Protocol):
    """Random access to the bytes of one video.

    Attributes:
        name: path or other name, for messages.
        size: number of bytes.
    """

    name: str
    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``offset``; fewer only where the source ends."""
        ...

    def open(self) -> io.BufferedIOBase:
        """An independent file object over the same bytes."""
        ...
