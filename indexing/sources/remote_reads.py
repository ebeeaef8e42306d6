"""Count what each thread reads from servers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from operator import add, sub
from typing import TypeVar

from videoloader.errors import ArgumentError
from videoloader.errors.short_text import short_text


class Counts:
    """A dataclass of numbers that can be added and subtracted field by field."""

    def __add__(self: CountsT, more: CountsT) -> CountsT:
        """Return the sum of both counts."""
        self._check(more)
        return type(self)(*map(add, vars(self).values(), vars(more).values()))

    def __radd__(self: CountsT, before: object) -> CountsT:
        """Return the same count after 0, with which ``sum`` begins."""
        return self if type(before) is int and before == 0 else self + before  # type: ignore[operator]

    def __sub__(self: CountsT, before: CountsT) -> CountsT:
        """Return the difference from an earlier count."""
        self._check(before)
        return type(self)(*map(sub, vars(self).values(), vars(before).values()))

    def _check(self, other: object) -> None:
        kind = type(self)
        if type(other) is not kind:
            raise ArgumentError(f"a {kind.__name__} is added or subtracted only with another, got {short_text(other)}")


CountsT = TypeVar("CountsT", bound=Counts)


@dataclass(frozen=True)
class RemoteReads(Counts):
    """Reads of remote files.

    Attributes:
        requests: number of ranges requested; repeated requests count once.
        size: bytes received.
        seconds: time that a thread waited for them.
    """

    requests: int = 0
    size: int = 0
    seconds: float = 0.0


NO_READS = RemoteReads()

_of_thread = threading.local()


def count_read(read: RemoteReads) -> None:
    """Add a read to the calling thread's count."""
    _of_thread.reads = reads_so_far() + read


def reads_so_far() -> RemoteReads:
    """Return everything that the calling thread has read so far."""
    reads: RemoteReads = getattr(_of_thread, "reads", NO_READS)
    return reads
