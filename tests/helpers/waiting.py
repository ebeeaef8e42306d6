"""How long tests wait for an event, and how they decide that something takes too long, even on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Seconds. The suite's limit for a test is longer, so that the test itself can say what did not happen.
PATIENCE = 500


def becomes(holds: Callable[[], bool]) -> bool:
    """Whether a condition holds, now or within ``PATIENCE``."""
    deadline = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.002)
    return holds()


def is_running(pid: str) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def within_processor_seconds(longest: float) -> Iterator[None]:
    """Fail if the block takes this process longer; waiting, and the time of other processes, do not count."""
    started = time.process_time()
    yield
    assert time.process_time() - started < longest
