"""Index videos: find every packet and frame from the container's own tables, without decoding."""

from videoloader.errors.argument_names import wrap_constructors
from videoloader.indexing.build import build_index
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.limits import Limits, set_limits
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.file_object import FileObjectSource
from videoloader.indexing.sources.folder import IMAGE_EXTENSIONS, FolderSource
from videoloader.indexing.sources.lmdb_value import LmdbSource
from videoloader.indexing.sources.local import FileSource, MemorySource
from videoloader.indexing.sources.opening import Openable, open_source
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.store.building import BuildReport, build_store
from videoloader.indexing.store.export import torchcodec_frame_mappings
from videoloader.indexing.store.merging import MergeReport, merge_stores
from videoloader.indexing.store.store import IndexStore
from videoloader.indexing.stream_info import StreamInfo

__all__ = [
    "IMAGE_EXTENSIONS",
    "BuildReport",
    "ByteSource",
    "FileObjectSource",
    "FileSource",
    "FolderSource",
    "IndexStore",
    "Limits",
    "LmdbSource",
    "MemorySource",
    "MergeReport",
    "Openable",
    "PartSource",
    "RemoteSource",
    "StreamInfo",
    "VideoIndex",
    "build_index",
    "build_store",
    "merge_stores",
    "open_source",
    "set_limits",
    "torchcodec_frame_mappings",
]

for _source in (FileObjectSource, FileSource, FolderSource, LmdbSource, MemorySource, PartSource, RemoteSource):
    wrap_constructors(_source)
