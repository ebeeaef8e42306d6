"""``SkippedClips``: collects what all workers of a cluster left out."""

from __future__ import annotations

from typing import Any

import ray


class _Account:
    """Entries by clip number, since a clip is tried again if Ray repeats a task or a data set is read twice."""

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
    """Collects what ``read_clips`` has left out so far, from all workers of a cluster.

    It is stored in an actor, which lives as long as this object or a data set made with it.

    Examples:
        >>> skipped = SkippedClips()
        >>> read_clips(data, mode, on_error="skip", skipped=skipped).write_parquet("clips")
        >>> for path, error in skipped.entries():
        ...     print(path, error)
    """

    def __init__(self) -> None:
        self._account: Any = ray.remote(num_cpus=0)(_Account).remote()

    def entries(self) -> list[tuple[str, str]]:
        """(path, error) for every file that could not be indexed, and every clip that could not be made."""
        listed: list[tuple[str, str]] = ray.get(self._account.entries.remote())
        return listed

    def set_files(self, files: list[tuple[str, str]]) -> None:
        """Record the files that cannot be indexed."""
        ray.get(self._account.set_files.remote(files))

    def add(self, clip: int, path: str, error: str) -> None:
        """Record a clip."""
        ray.get(self._account.add.remote(clip, path, error))
