"""Index videos: find every packet and frame from the container's own tables, without decoding."""

from videoloader.indexing.build import build_index
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.limits import Limits, set_limits
from videoloader.indexing.sources import (
    IMAGE_EXTENSIONS,
    ByteSource,
    FileObjectSource,
    FileSource,
    FolderSource,
    LmdbSource,
    MemorySource,
    Openable,
    PartSource,
    RemoteSource,
    open_source,
)
from videoloader.indexing.store import (
    BuildReport,
    IndexStore,
    MergeReport,
    build_store,
    merge_stores,
    torchcodec_frame_mappings,
)
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
