"""Index Matroska and WebM files from the headers of their blocks."""

from videoloader.indexing.matroska.index import EBML_MAGIC, index_matroska

__all__ = ["EBML_MAGIC", "index_matroska"]
