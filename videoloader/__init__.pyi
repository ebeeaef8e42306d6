"""The public names, which ``__init__.py`` reads here."""

from videoloader import layouts as layouts, transforms as transforms
from videoloader.batching.batch import Batch as Batch, ListBatch as ListBatch
from videoloader.batching.stats import LoaderStats as LoaderStats
from videoloader.dataset import VideoDataset as VideoDataset, VideoEntry as VideoEntry
from videoloader.decoding.sessions import set_decoder_memory as set_decoder_memory
from videoloader.errors import (
    ArgumentError as ArgumentError,
    ConfigurationError as ConfigurationError,
    CorruptFramesError as CorruptFramesError,
    DecodeError as DecodeError,
    FrameRangeError as FrameRangeError,
    IndexingError as IndexingError,
    MissingAttributeError as MissingAttributeError,
    NoMemoryError as NoMemoryError,
    NotIndexedError as NotIndexedError,
    RowRangeError as RowRangeError,
    SourceError as SourceError,
    StaleIndexError as StaleIndexError,
    UnsupportedError as UnsupportedError,
    VideoLoaderError as VideoLoaderError,
    VideoLoaderWarning as VideoLoaderWarning,
    VideoWarning as VideoWarning,
)
from videoloader.indexing import (
    IMAGE_EXTENSIONS as IMAGE_EXTENSIONS,
    BuildReport as BuildReport,
    FolderSource as FolderSource,
    IndexStore as IndexStore,
    Limits as Limits,
    MergeReport as MergeReport,
    VideoIndex as VideoIndex,
    build_index as build_index,
    build_store as build_store,
    merge_stores as merge_stores,
    set_limits as set_limits,
)
from videoloader.loader import VideoLoader as VideoLoader
from videoloader.order.by_column import ByColumn as ByColumn
from videoloader.order.shuffle import ShuffleBlocks as ShuffleBlocks, ShuffleVideos as ShuffleVideos
from videoloader.packets.decode_plan import DecodePlan as DecodePlan, plan_frames as plan_frames
from videoloader.showing.progress import show_progress as show_progress
from videoloader.reading.corrupt_frames import CorruptFramesWarning as CorruptFramesWarning
from videoloader.sampling.at_rate import AtRate as AtRate
from videoloader.sampling.columns import PadColumn as PadColumn
from videoloader.sampling.frame_list import FrameList as FrameList
from videoloader.sampling.frame_tuples import FrameTuples as FrameTuples
from videoloader.sampling.frame_tuples import Triplets as Triplets
from videoloader.sampling.mode import FrameMode as FrameMode
from videoloader.sampling.near_keyframes import NearKeyframes as NearKeyframes
from videoloader.sampling.roles import Roles as Roles
from videoloader.sampling.spread import Segments as Segments
from videoloader.sampling.spread import UniformFrames as UniformFrames
from videoloader.sampling.timestamps import Timestamps as Timestamps
from videoloader.sampling.whole import Keyframes as Keyframes
from videoloader.sampling.whole import WholeVideo as WholeVideo
from videoloader.sampling.windows import EvenWindows as EvenWindows
from videoloader.sampling.windows import EveryWindow as EveryWindow
from videoloader.sampling.windows import RandomWindow as RandomWindow
from videoloader.showing.show import show as show
from videoloader.transforms import *
from videoloader.verification import FileReport as FileReport, VerifyReport as VerifyReport, verify as verify
from videoloader.video import Clip as Clip, Video as Video

__version__: str
