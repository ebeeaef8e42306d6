"""Find where every packet and frame of a video is, from the container's own tables."""

from videoloader.indexing.build import build_index
from videoloader.indexing.index import StreamInfo, VideoIndex
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

__all__ = [
    "IMAGE_EXTENSIONS",
    "ByteSource",
    "FileObjectSource",
    "FileSource",
    "FolderSource",
    "LmdbSource",
    "MemorySource",
    "Openable",
    "PartSource",
    "RemoteSource",
    "StreamInfo",
    "VideoIndex",
    "build_index",
    "open_source",
]
