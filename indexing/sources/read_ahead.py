"""Few requests for many small reads: what was fetched last, and how much to fetch at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

# Enough for the headers at the start of a file, and often for all its tables. Readers that jump get less each time
# (a header here and there), readers that go on get more.
_FIRST, _SMALLEST, _LARGEST = 64 << 10, 8 << 10, 1 << 20
_KEPT = 1 << 20


class ReadAhead:
    """Reads through windows: pieces of the source that were fetched, of which the ones used last are kept.

    Any number of threads may read at once; each that goes on from a window of its own gets longer ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: OrderedDict[int, bytes] = OrderedDict()  # by where they start
        self._after_jump = _FIRST

    def read(self, offset: int, size: int, fetch: Callable[[int, int], bytes]) -> bytes:
        """Exactly ``size`` bytes from ``offset``, fewer only where the source ends. ``fetch`` does the same."""
        with self._lock:
            head = self._kept(offset, size)
            start = offset + len(head)
            if len(head) == size:
                return head
            # Whoever begins shortly after the start of the file comes back for the start.
            begin = 0 if start < _FIRST and 0 not in self._windows else start
            length = self._length(begin)
        stop = max(offset + size, begin + length)
        fetched = fetch(begin, stop - begin)
        with self._lock:
            self._keep(begin, fetched)
        return head + fetched[start - begin : offset + size - begin]

    def kept(self, offset: int, size: int) -> bytes | None:
        """The bytes where all of them are in a window, else None."""
        with self._lock:
            data = self._kept(offset, size)
        return data if len(data) == size else None

    def _kept(self, offset: int, size: int) -> bytes:
        """The bytes that a window has, from the first on."""
        for start, data in reversed(self._windows.items()):
            if start <= offset < start + len(data):
                self._windows.move_to_end(start)
                return data[offset - start : offset - start + size]
        return b""

    def _length(self, start: int) -> int:
        for begin, data in reversed(self._windows.items()):
            end = begin + len(data)
            # A short way after the end of a window is the next header of the same walk.
            if end <= start < end + len(data):
                return min(2 * len(data), _LARGEST)
        length = self._after_jump
        self._after_jump = max(length // 2, _SMALLEST)
        return length

    def _keep(self, start: int, data: bytes) -> None:
        if not 0 < len(data) <= _KEPT:
            return
        self._windows[start] = data
        self._windows.move_to_end(start)
        total = sum(map(len, self._windows.values()))
        while total > _KEPT:
            total -= len(self._windows.popitem(last=False)[1])
