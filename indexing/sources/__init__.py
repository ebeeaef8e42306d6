"""The source of a video's bytes: one small interface, wherever they lie."""

from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.file_object import FileObjectSource
from videoloader.indexing.sources.folder import IMAGE_EXTENSIONS, FolderSource
from videoloader.indexing.sources.lmdb_value import LmdbSource
from videoloader.indexing.sources.local import FileSource, MemorySource
from videoloader.indexing.sources.opening import Openable, open_source
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.reopening import reopen_source
from videoloader.indexing.sources.state import SourceState, check_unchanged, state_of
from videoloader.indexing.sources.stream import StreamSource, choose_stream

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
    "SourceState",
    "StreamSource",
    "check_unchanged",
    "choose_stream",
    "open_source",
    "reopen_source",
    "state_of",
]
