"""The account of what a cluster left out: kept in one place, whichever worker found it."""

from __future__ import annotations

from typing import Any

import ray


class _Account:
    """By clip number, since a clip is tried again where Ray repeats a task or a data set is read twice."""

    def __init__(self) -> None:
        self._files: list[tuple[str, str]] = []
        self._clips: dict[int, tuple[str, str]] = {}

    def set_files(self, files: list[tuple[str, str]]) -> None:
        self._files = files

    def add(self, clip: int, path: str, error: str) -> None:
        self._clips[clip] = (path, error)

    def entries(self) -> list[tuple[str, str]]:
        return [*self._files, *(self._clips[clip] for clip in sorted(self._clips))]


class SkippedClips:
    """The account of what ``read_clips`` has left out so far, from all workers of a cluster.

    It lies in the memory of an actor, which lives as long as this object or a data set that was made with it.

    Examples:
        >>> skipped = SkippedClips()
        >>> read_clips(data, mode, on_error="skip", skipped=skipped).write_parquet("clips")
        >>> for path, error in skipped.entries():
        ...     print(path, error)
    """

    def __init__(self) -> None:
        self._account: Any = ray.remote(num_cpus=0)(_Account).remote()

    def entries(self) -> list[tuple[str, str]]:
        """(path, error) of every file that could not be indexed, and of every clip that could not be made."""
        listed: list[tuple[str, str]] = ray.get(self._account.entries.remote())
        return listed

    def set_files(self, files: list[tuple[str, str]]) -> None:
        """Put the files that cannot be indexed on the account."""
        ray.get(self._account.set_files.remote(files))

    def add(self, clip: int, path: str, error: str) -> None:
        """Put a clip on the account."""
        ray.get(self._account.add.remote(clip, path, error))
