"""Index videos: find every packet and frame from the container's own tables, without decoding."""

from videoloader.indexing.build import build_index as build_index
from videoloader.indexing.index import VideoIndex as VideoIndex
from videoloader.indexing.limits import Limits as Limits
from videoloader.indexing.limits import set_limits as set_limits
from videoloader.indexing.sources import IMAGE_EXTENSIONS as IMAGE_EXTENSIONS
from videoloader.indexing.sources import ByteSource as ByteSource
from videoloader.indexing.sources import FileObjectSource as FileObjectSource
from videoloader.indexing.sources import FileSource as FileSource
from videoloader.indexing.sources import FolderSource as FolderSource
from videoloader.indexing.sources import LmdbSource as LmdbSource
from videoloader.indexing.sources import MemorySource as MemorySource
from videoloader.indexing.sources import Openable as Openable
from videoloader.indexing.sources import PartSource as PartSource
from videoloader.indexing.sources import RemoteSource as RemoteSource
from videoloader.indexing.sources import open_source as open_source
from videoloader.indexing.store import BuildReport as BuildReport
from videoloader.indexing.store import IndexStore as IndexStore
from videoloader.indexing.store import MergeReport as MergeReport
from videoloader.indexing.store import build_store as build_store
from videoloader.indexing.store import merge_stores as merge_stores
from videoloader.indexing.store import torchcodec_frame_mappings as torchcodec_frame_mappings
from videoloader.indexing.stream_info import StreamInfo as StreamInfo
