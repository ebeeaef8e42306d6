"""Answer many small reads with few requests, from windows fetched earlier."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

# Window sizes. The first is enough for the headers at the start of a file, and often for all its tables. Readers that
# jump get smaller windows (a header here and there), readers that continue get larger ones.
_FIRST, _SMALLEST, _LARGEST = 64 << 10, 8 << 10, 1 << 20
_KEPT = 1 << 20


class ReadAhead:
    """Reads through windows, pieces of the source that were fetched, and keeps the windows used last.

    Any number of threads may read at once; a thread that continues from a window gets longer ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: OrderedDict[int, bytes] = OrderedDict()  # by their offset
        self._after_jump = _FIRST

    def read(self, offset: int, size: int, fetch: Callable[[int, int], bytes]) -> bytes:
        """Return exactly ``size`` bytes from ``offset``, fewer only where the source ends. ``fetch`` does the same."""
        with self._lock:
            head = self._kept(offset, size)
            start = offset + len(head)
            if len(head) == size:
                return head
            # A reader that begins shortly after the start of the file will come back for the start.
            begin = 0 if start < _FIRST and 0 not in self._windows else start
            length = self._length(begin)
        stop = max(offset + size, begin + length)
        fetched = fetch(begin, stop - begin)
        with self._lock:
            self._keep(begin, fetched)
        return head + fetched[start - begin : offset + size - begin]

    def kept(self, offset: int, size: int) -> bytes | None:
        """Return the bytes if all of them are in one window, else None."""
        with self._lock:
            data = self._kept(offset, size)
        return data if len(data) == size else None

    def _kept(self, offset: int, size: int) -> bytes:
        """Return the first of the bytes, as far as a window has them."""
        for start, data in reversed(self._windows.items()):
            if start <= offset < start + len(data):
                self._windows.move_to_end(start)
                return data[offset - start : offset - start + size]
        return b""

    def _length(self, start: int) -> int:
        for begin, data in reversed(self._windows.items()):
            end = begin + len(data)
            # A header a short way after the end of a window belongs to the same walk.
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
