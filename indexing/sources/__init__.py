"""Read a video's bytes from files, URLs, archives, folders of images and memory, through one interface."""

from videoloader.indexing.sources.base import ByteSource as ByteSource
from videoloader.indexing.sources.file_object import FileObjectSource as FileObjectSource
from videoloader.indexing.sources.folder import IMAGE_EXTENSIONS as IMAGE_EXTENSIONS
from videoloader.indexing.sources.folder import FolderSource as FolderSource
from videoloader.indexing.sources.lmdb_value import LmdbSource as LmdbSource
from videoloader.indexing.sources.local import FileSource as FileSource
from videoloader.indexing.sources.local import MemorySource as MemorySource
from videoloader.indexing.sources.opening import Openable as Openable
from videoloader.indexing.sources.opening import open_source as open_source
from videoloader.indexing.sources.part import PartSource as PartSource
from videoloader.indexing.sources.remote import RemoteSource as RemoteSource
from videoloader.indexing.sources.reopening import reopen_source as reopen_source
from videoloader.indexing.sources.state import SourceState as SourceState
from videoloader.indexing.sources.state import check_unchanged as check_unchanged
from videoloader.indexing.sources.state import state_of as state_of
from videoloader.indexing.sources.stream import StreamSource as StreamSource
from videoloader.indexing.sources.stream import choose_stream as choose_stream
