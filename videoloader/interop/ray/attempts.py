"""How often a cluster has begun with something without ending it: Ray repeats what a worker died of without end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ray


class _Count:
    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, work: int) -> int:
        self._begun[work] += 1
        return self._begun[work]

    def end(self, work: int) -> None:
        del self._begun[work]


class Attempts:
    """Counts attempts at numbered pieces of work, for all workers of a cluster."""

    def __init__(self) -> None:
        self._count: Any = ray.remote(num_cpus=0)(_Count).remote()

    def begin(self, work: int) -> int:
        """Which attempt at it this is, from 1."""
        attempt: int = ray.get(self._count.begin.remote(work))
        return attempt

    def end(self, work: int) -> None:
        """It is done, or failed without harm to the worker."""
        ray.get(self._count.end.remote(work))
