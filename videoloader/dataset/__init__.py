"""Data sets: tables of videos, or parts of videos, with their labels and other columns."""

from videoloader.dataset.dataset import VideoDataset as VideoDataset
from videoloader.dataset.entry import VideoEntry as VideoEntry
from videoloader.dataset.folders import VIDEO_EXTENSIONS as VIDEO_EXTENSIONS
from videoloader.dataset.ranges import entry_range as entry_range
