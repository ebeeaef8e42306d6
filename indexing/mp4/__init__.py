"""Index ISO base media and QuickTime files from their own tables."""

from videoloader.indexing.mp4.index import index_mp4

__all__ = ["index_mp4"]
