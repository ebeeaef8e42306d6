"""The cost of reading from servers, counted for each thread that reads."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from operator import add, sub
from typing import TypeVar


class Counts:
    """A dataclass of numbers, which are added and subtracted one by one."""

    def __add__(self: CountsT, more: CountsT) -> CountsT:
        """Both accounts in one."""
        return type(self)(*map(add, vars(self).values(), vars(more).values()))

    def __sub__(self: CountsT, before: CountsT) -> CountsT:
        """The account since an earlier one."""
        return type(self)(*map(sub, vars(self).values(), vars(before).values()))


CountsT = TypeVar("CountsT", bound=Counts)


@dataclass(frozen=True)
class RemoteReads(Counts):
    """Reads of remote files.

    Attributes:
        requests: ranges that were asked for; those that were asked for again count once.
        size: bytes that came.
        seconds: time that a thread waited for them.
    """

    requests: int = 0
    size: int = 0
    seconds: float = 0.0


NO_READS = RemoteReads()

_of_thread = threading.local()


def count_read(read: RemoteReads) -> None:
    """Add a read to the calling thread's account."""
    _of_thread.reads = reads_so_far() + read


def reads_so_far() -> RemoteReads:
    """All that the calling thread has read so far."""
    reads: RemoteReads = getattr(_of_thread, "reads", NO_READS)
    return reads
