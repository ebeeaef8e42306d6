"""The number of attempts at a piece of work that a cluster began and did not end: Ray repeats deaths forever."""

from __future__ import annotations

from collections import Counter


class Attempts:
    """Counts attempts at numbered pieces of work, as an actor for all workers of a cluster."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, work: int) -> int:
        """The number of this attempt at it, from 1."""
        self._begun[work] += 1
        return self._begun[work]

    def end(self, work: int) -> None:
        """It is done, or failed without harm to the worker."""
        del self._begun[work]
