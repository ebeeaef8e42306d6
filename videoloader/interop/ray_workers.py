"""Work on a Ray cluster that needs no torch: indexing, counting for all workers, and finding the GPU of one.

It stands outside of ``interop.ray``, which imports torch and Ray Data: they take seconds and hundreds of megabytes in
each worker.
"""

from __future__ import annotations

import os
from collections import Counter

import ray

from videoloader.indexing.store.tasks import Answer, Task, answer_task


def answer_chunk(tasks: list[Task]) -> list[Answer]:
    """Index some videos; see ``answer_task``."""
    return [answer_task(task) for task in tasks]


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


class Account:
    """Entries by clip number, since a clip is tried again if Ray repeats a task or a data set is read twice."""

    def __init__(self) -> None:
        self._files: list[tuple[str, str]] = []
        self._clips: dict[int, tuple[str, str]] = {}

    def set_files(self, files: list[tuple[str, str]]) -> None:
        """Record the files that cannot be indexed."""
        self._files = files

    def add(self, clip: int, path: str, error: str) -> None:
        """Record a clip."""
        self._clips[clip] = (path, error)

    def entries(self) -> list[tuple[str, str]]:
        """(path, error) of all files and clips."""
        return [*self._files, *(self._clips[clip] for clip in sorted(self._clips))]


def own_device() -> str:
    """The first GPU that Ray assigned to this worker, or the CPU.

    Workers inherit the variables of a launcher that started the driver, which do not apply here.
    """
    given = ray.get_gpu_ids()
    if not given:
        return "cpu"
    # A worker sees only its own GPUs, unless RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES is set.
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"cuda:{seen.split(',').index(str(given[0])) if seen else given[0]}"
