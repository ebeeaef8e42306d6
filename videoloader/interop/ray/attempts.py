"""The number of attempts at a piece of work that a cluster began and did not end: Ray repeats deaths forever."""

from __future__ import annotations

from collections import Counter


class Attempts:
    """Counts attempts at numbered pieces of work, as an actor for all workers of a cluster.

    Args:
        clips: clips of all the work.
    """

    def __init__(self, clips: int) -> None:
        self._clips = clips
        self._begun: Counter[int] = Counter()
        self._left_out: Counter[int] = Counter()

    def begin(self, work: int) -> int:
        """The number of this attempt at it, from 1."""
        self._begun[work] += 1
        return self._begun[work]

    def end(self, work: int, left_out: int) -> bool:
        """It is done, or failed without harm to the worker.

        Args:
            work: its number.
            left_out: its clips, if it was done and none of them could be made; else 0.

        Returns:
            Whether all of the work is done, and no clip of it could be made.
        """
        del self._begun[work]
        if left_out:
            self._left_out[work] = left_out
        else:
            self._left_out.pop(work, None)
        return self._left_out.total() == self._clips
