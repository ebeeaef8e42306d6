"""Find where every packet and frame of a video is, from the container's own tables."""

from videoloader.indexing.build import build_index
from videoloader.indexing.index import StreamInfo, VideoIndex
from videoloader.indexing.sources import ByteSource, FileSource, MemorySource, open_source
from videoloader.indexing.store import BuildReport, IndexStore, build_store, torchcodec_frame_mappings

__all__ = [
    "BuildReport",
    "ByteSource",
    "FileSource",
    "IndexStore",
    "MemorySource",
    "StreamInfo",
    "VideoIndex",
    "build_index",
    "build_store",
    "open_source",
    "torchcodec_frame_mappings",
]
