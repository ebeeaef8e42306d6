"""Builds indexes and makes clips on a Ray cluster, for offline work."""

from videoloader.errors import needs

with needs("work on a Ray cluster needs Ray: pip install 'videoloader[ray]'"):
    import ray.data  # noqa: F401

from videoloader.interop.ray.clips import read_clips
from videoloader.interop.ray.indexing import build_store
from videoloader.interop.ray.skipped import SkippedClips

__all__ = ["SkippedClips", "build_store", "read_clips"]

build_index = build_store  # the name in version 0.1, to be removed in the next one
