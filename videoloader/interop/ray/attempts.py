"""Counts attempts at pieces of work, since Ray retries forever when workers die."""

from __future__ import annotations

from collections import Counter


class Attempts:
    """Counts attempts at numbered pieces of work, in an actor that all workers of a cluster share.

    Args:
        clips: number of clips of all the work.
    """

    def __init__(self, clips: int) -> None:
        self._clips = clips
        self._begun: Counter[int] = Counter()
        self._left_out: Counter[int] = Counter()

    def begin(self, work: int) -> int:
        """Begin an attempt, and return its number, from 1."""
        self._begun[work] += 1
        return self._begun[work]

    def end(self, work: int, left_out: int) -> bool:
        """End an attempt that is done, or that failed without killing its worker.

        Args:
            work: number of the work.
            left_out: the number of its clips, if it is done and none of them could be made; else 0.

        Returns:
            Whether all of the work is done and no clip of it could be made.
        """
        del self._begun[work]
        if left_out:
            self._left_out[work] = left_out
        else:
            self._left_out.pop(work, None)
        return self._left_out.total() == self._clips
