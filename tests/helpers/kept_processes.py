"""Reader processes that the loaders of several tests share: each takes four seconds of a core to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from waiting import becomes

from videoloader.reading import process_pool, workers
from videoloader.reading.process_pool import ProcessPool


class KeptProcesses(ProcessPool):
    """Processes that do not end with a loader."""

    def close(self) -> None:
        """Leave the processes to the next loader."""

    def share(self, patch: pytest.MonkeyPatch) -> None:
        """Have all loaders with reader processes use these, from the first clip, while the patch holds."""
        patch.setattr(process_pool, "_CLIPS_BEFORE", 0)
        patch.setattr(workers, "ProcessPool", lambda most: self)


@contextmanager
def kept_processes(count: int) -> Iterator[KeptProcesses]:
    """So many processes that have begun, and end with the block."""
    pool, taken = KeptProcesses(count), []

    def are_taken() -> bool:
        if process := pool.take(1000):
            taken.append(process)
        return len(taken) == count

    assert becomes(are_taken)
    for process in taken:
        pool.give_back(process)
    yield pool
    ProcessPool.close(pool)
