"""The cost of reading from servers, counted for each thread that reads."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteReads:
    """Reads of remote files.

    Attributes:
        requests: ranges that were asked for; those that were asked for again count once.
        size: bytes that came.
        seconds: time that a thread waited for them.
    """

    requests: int = 0
    size: int = 0
    seconds: float = 0.0

    def __add__(self, more: RemoteReads) -> RemoteReads:
        return RemoteReads(self.requests + more.requests, self.size + more.size, self.seconds + more.seconds)

    def __sub__(self, before: RemoteReads) -> RemoteReads:
        return RemoteReads(self.requests - before.requests, self.size - before.size, self.seconds - before.seconds)


NO_READS = RemoteReads()

_of_thread = threading.local()


def count_read(read: RemoteReads) -> None:
    """Add a read to the calling thread's account."""
    _of_thread.reads = reads_so_far() + read


def reads_so_far() -> RemoteReads:
    """All that the calling thread has read so far."""
    reads: RemoteReads = getattr(_of_thread, "reads", NO_READS)
    return reads
