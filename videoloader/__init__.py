"""From videos on disk to training batches on the GPU.

Names are imported when first used, so that ``videoloader.indexing`` alone needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videoloader import layouts
    from videoloader.batch import Batch
    from videoloader.dataset import VideoDataset, VideoEntry
    from videoloader.decoding import set_decoder_memory
    from videoloader.errors import (
        ConfigurationError,
        DecodeError,
        FrameRangeError,
        IndexingError,
        NotIndexedError,
        SourceError,
        StaleIndexError,
        UnsupportedError,
        VideoLoaderError,
    )
    from videoloader.indexing import (
        IMAGE_EXTENSIONS,
        BuildReport,
        FolderSource,
        IndexStore,
        VideoIndex,
        build_index,
        build_store,
    )
    from videoloader.loader import VideoLoader
    from videoloader.loader_stats import LoaderStats
    from videoloader.planning import DecodePlan, plan_frames
    from videoloader.sampling import (
        AtRate,
        EvenWindows,
        EveryWindow,
        FrameList,
        FrameTuples,
        Keyframes,
        NearKeyframes,
        PadColumn,
        RandomWindow,
        Segments,
        Timestamps,
        Triplets,
        UniformFrames,
        WholeVideo,
    )
    from videoloader.transforms import (
        CenterCrop,
        Letterbox,
        Normalize,
        Pad,
        PadToMultiple,
        RandomHorizontalFlip,
        RandomResizedCrop,
        Resize,
    )
    from videoloader.video import Clip, Video

_MODULES = {
    "batch": ["Batch"],
    "dataset": ["VideoDataset", "VideoEntry"],
    "decoding": ["set_decoder_memory"],
    "errors": [
        "ConfigurationError",
        "DecodeError",
        "FrameRangeError",
        "IndexingError",
        "NotIndexedError",
        "SourceError",
        "StaleIndexError",
        "UnsupportedError",
        "VideoLoaderError",
    ],
    "indexing": [
        "IMAGE_EXTENSIONS",
        "BuildReport",
        "FolderSource",
        "IndexStore",
        "VideoIndex",
        "build_index",
        "build_store",
    ],
    "loader": ["VideoLoader"],
    "loader_stats": ["LoaderStats"],
    "planning": ["DecodePlan", "plan_frames"],
    "sampling": [
        "AtRate",
        "EvenWindows",
        "EveryWindow",
        "FrameList",
        "FrameTuples",
        "Keyframes",
        "NearKeyframes",
        "PadColumn",
        "RandomWindow",
        "Segments",
        "Timestamps",
        "Triplets",
        "UniformFrames",
        "WholeVideo",
    ],
    "transforms": [
        "CenterCrop",
        "Letterbox",
        "Normalize",
        "Pad",
        "PadToMultiple",
        "RandomHorizontalFlip",
        "RandomResizedCrop",
        "Resize",
    ],
    "video": ["Clip", "Video"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "IMAGE_EXTENSIONS",
    "AtRate",
    "Batch",
    "BuildReport",
    "CenterCrop",
    "Clip",
    "ConfigurationError",
    "DecodeError",
    "DecodePlan",
    "EvenWindows",
    "EveryWindow",
    "FolderSource",
    "FrameList",
    "FrameRangeError",
    "FrameTuples",
    "IndexStore",
    "IndexingError",
    "Keyframes",
    "Letterbox",
    "LoaderStats",
    "NearKeyframes",
    "Normalize",
    "NotIndexedError",
    "Pad",
    "PadColumn",
    "PadToMultiple",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomWindow",
    "Resize",
    "Segments",
    "SourceError",
    "StaleIndexError",
    "Timestamps",
    "Triplets",
    "UniformFrames",
    "UnsupportedError",
    "Video",
    "VideoDataset",
    "VideoEntry",
    "VideoIndex",
    "VideoLoader",
    "VideoLoaderError",
    "WholeVideo",
    "build_index",
    "build_store",
    "layouts",
    "plan_frames",
    "set_decoder_memory",
]


def __getattr__(name: str) -> Any:
    if name == "layouts":
        return importlib.import_module("videoloader.layouts")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'videoloader' has no attribute {name!r}")
    return getattr(importlib.import_module(f"videoloader.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
