"""``SkippedClips``: collects what all workers of a cluster left out."""

from __future__ import annotations

from typing import Any

import ray

from videoloader.interop.ray_workers import Account


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
        self._account: Any = ray.remote(num_cpus=0)(Account).remote()

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
