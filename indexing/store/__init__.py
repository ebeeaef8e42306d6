"""Keep the indexes of a whole data set in one SQLite file, built once and shared by all processes."""

from videoloader.indexing.store.building import BuildReport, build_store
from videoloader.indexing.store.export import torchcodec_frame_mappings
from videoloader.indexing.store.merging import MergeReport, merge_stores
from videoloader.indexing.store.store import IndexStore

__all__ = ["BuildReport", "IndexStore", "MergeReport", "build_store", "merge_stores", "torchcodec_frame_mappings"]
