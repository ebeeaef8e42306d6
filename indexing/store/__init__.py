"""An index store: the indexes of a whole data set in one SQLite file, built once and shared by all processes."""

from videoloader.indexing.store.building import BuildReport, build_store
from videoloader.indexing.store.export import torchcodec_frame_mappings
from videoloader.indexing.store.store import IndexStore

__all__ = ["BuildReport", "IndexStore", "build_store", "torchcodec_frame_mappings"]
