"""All clips of a data set, numbered: which video, which of its clips, and the video's index."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from videoloader.dataset import VideoDataset, VideoEntry, entry_range
from videoloader.errors import VideoLoaderError
from videoloader.indexing import VideoIndex, build_index
from videoloader.sampling import FrameMode


@dataclass(eq=False)
class EntryFrames:
    """One entry of the data set with its index; what a frame mode sees of it.

    ``index`` may be replaced by one that is known better; the frames it tells of stay the same.
    """

    entry: VideoEntry
    index: VideoIndex
    first: int
    stop: int


@dataclass(frozen=True, eq=False)
class ClipTable:
    """The clips of a data set under a frame mode, numbered over all videos.

    Attributes:
        videos: the entries that can be used.
        unreadable: (path, error) of those that cannot.
        last_clip: int64[V], number of clips in each video and all before it.
    """

    videos: list[EntryFrames]
    unreadable: list[tuple[str, str]]
    last_clip: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Number of clips."""
        return int(self.last_clip[-1]) if len(self.last_clip) else 0

    def __getitem__(self, clip: int) -> tuple[EntryFrames, int]:
        """The video of a clip and the clip's number in it."""
        row = int(np.searchsorted(self.last_clip, clip, "right"))
        return self.videos[row], clip - (int(self.last_clip[row - 1]) if row else 0)

    def fingerprint(self, *settings: object) -> str:
        """A short name for these clips in this order under these settings; another table has another name."""
        digest = blake2b(digest_size=16)
        for video, last in zip(self.videos, self.last_clip.tolist(), strict=True):
            digest.update(repr((video.entry.path, video.first, video.stop, len(video.index), last)).encode())
        digest.update(repr(settings).encode())
        return digest.hexdigest()


def build_clip_table(
    dataset: VideoDataset,
    mode: FrameMode,
    *,
    workers: int,
    skip_unreadable: bool,
    on_indexed: Callable[[], object] = lambda: None,
) -> ClipTable:
    """Index all videos of a data set and number their clips.

    Args:
        dataset: the entries.
        mode: says how many clips each has.
        workers: threads.
        skip_unreadable: leave out what cannot be indexed instead of raising.
        on_indexed: called after each video.

    Raises:
        VideoLoaderError: a video cannot be indexed, or its entry's range lies outside it.
    """

    def index(entry: VideoEntry) -> EntryFrames | tuple[str, str]:
        try:
            built = build_index(entry.path)
            frames = EntryFrames(entry, built, *entry_range(entry, built))
        except VideoLoaderError as error:
            if not skip_unreadable:
                raise
            return entry.path, str(error)
        finally:
            on_indexed()
        return frames

    with ThreadPoolExecutor(workers, "videoloader-index") as pool:
        rows = list(pool.map(index, dataset))
    videos = [row for row in rows if isinstance(row, EntryFrames)]
    return ClipTable(
        videos,
        [row for row in rows if not isinstance(row, EntryFrames)],
        np.cumsum([mode.num_clips(video) for video in videos], dtype=np.int64),
    )
