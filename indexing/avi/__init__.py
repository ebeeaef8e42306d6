"""Index AVI files from their own tables."""

from videoloader.indexing.avi.index import index_avi

__all__ = ["index_avi"]
