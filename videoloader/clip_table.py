"""All clips of a data set, numbered: which video, which of its clips, and the video's index."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt

from videoloader.dataset import VideoDataset, VideoEntry, entry_range, numbered_range
from videoloader.errors import NotIndexedError, VideoLoaderError
from videoloader.indexing import IndexStore, VideoIndex, build_index
from videoloader.indexing.store.cache import IndexCache
from videoloader.sampling import FrameMode


class Indexes(Protocol):
    """The index of each path: all of them in a dictionary, or an ``IndexCache``."""

    def __getitem__(self, path: str, /) -> VideoIndex: ...
    def __setitem__(self, path: str, index: VideoIndex, /) -> None: ...


@dataclass(eq=False, slots=True)
class EntryFrames:
    """One entry of the data set with its frames; what a frame mode sees of it.

    Attributes:
        entry: the row of the data set.
        first, stop: the frames it means.
        frames: number of frames of the whole video.
        indexes: where its index is kept.
    """

    entry: VideoEntry
    first: int
    stop: int
    frames: int
    indexes: Indexes

    @property
    def index(self) -> VideoIndex:
        """Of the whole video. May be replaced by one that is known better; the frames it tells of stay the same."""
        return self.indexes[self.entry.path]

    @index.setter
    def index(self, known: VideoIndex) -> None:
        self.indexes[self.entry.path] = known


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
            digest.update(repr((video.entry.path, video.first, video.stop, video.frames, last)).encode())
        digest.update(repr(settings).encode())
        return digest.hexdigest()


Rows = list[EntryFrames | tuple[str, str]]


def build_clip_table(
    dataset: VideoDataset,
    mode: FrameMode,
    *,
    store: IndexStore | None,
    workers: int,
    skip_unreadable: bool,
    on_indexed: Callable[[], object] = lambda: None,
) -> ClipTable:
    """Index all videos of a data set, or take them from a store, and number their clips.

    Args:
        dataset: the entries.
        mode: says how many clips each has.
        store: where the videos were indexed before.
        workers: threads that index without a store.
        skip_unreadable: leave out what cannot be indexed instead of raising.
        on_indexed: called after each video.

    Raises:
        VideoLoaderError: a video cannot be indexed, or its entry's range lies outside it.
        NotIndexedError: a video is not in the store.
    """
    if store is None:
        rows = _index_all(dataset, workers, skip_unreadable, on_indexed)
    else:
        rows = _look_up_all(dataset, store, skip_unreadable, on_indexed)
    videos = [row for row in rows if isinstance(row, EntryFrames)]
    return ClipTable(
        videos,
        [row for row in rows if not isinstance(row, EntryFrames)],
        np.cumsum([mode.num_clips(video) for video in videos], dtype=np.int64),
    )


def _index_all(dataset: VideoDataset, workers: int, skip_unreadable: bool, on_indexed: Callable[[], object]) -> Rows:
    indexes: dict[str, VideoIndex] = {}

    def row(entry: VideoEntry) -> EntryFrames | tuple[str, str]:
        try:
            index = build_index(entry.path)
            indexes[entry.path] = index
            return EntryFrames(entry, *entry_range(entry, index), len(index), indexes)
        except VideoLoaderError as error:
            if not skip_unreadable:
                raise
            return entry.path, str(error)
        finally:
            on_indexed()

    with ThreadPoolExecutor(workers, "videoloader-index") as pool:
        return list(pool.map(row, dataset))


def _look_up_all(
    dataset: VideoDataset, store: IndexStore, skip_unreadable: bool, on_indexed: Callable[[], object]
) -> Rows:
    paths = list(dict.fromkeys(entry.path for entry in dataset))
    counts = dict(zip(paths, store.frame_counts(paths), strict=True))
    # The files were compared with the store just now; a clip must not cost a look at its file again.
    indexes = IndexCache(store.unverified())

    def row(entry: VideoEntry) -> EntryFrames:
        frames = counts[entry.path]
        if isinstance(frames, VideoLoaderError):
            raise frames
        if entry.start_seconds is None and entry.stop_seconds is None:
            first, stop = numbered_range(entry, frames)
        else:
            first, stop = entry_range(entry, indexes[entry.path])
        return EntryFrames(entry, first, stop, frames, indexes)

    rows: Rows = []
    for entry in dataset:
        try:
            rows.append(row(entry))
        except NotIndexedError:
            raise  # a store that was built for other videos is no damaged file
        except VideoLoaderError as error:
            if not skip_unreadable:
                raise
            rows.append((entry.path, str(error)))
        on_indexed()
    return rows
