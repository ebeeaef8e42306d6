"""Data sets: tables of videos, or parts of videos, with their labels and other columns."""

from videoloader.dataset.clip_cost import ClipCost
from videoloader.dataset.dataset import VideoDataset
from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.folders import VIDEO_EXTENSIONS
from videoloader.dataset.ranges import entry_range, entry_ranges
from videoloader.dataset.summary import DatasetSummary
from videoloader.dataset.table import EntryTable

__all__ = [
    "VIDEO_EXTENSIONS",
    "ClipCost",
    "DatasetSummary",
    "EntryTable",
    "VideoDataset",
    "VideoEntry",
    "entry_range",
    "entry_ranges",
]
