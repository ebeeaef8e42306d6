"""Indexes of videos that nobody listed beforehand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from videoloader.dataset import VideoEntry, entry_range
from videoloader.device import available_cores
from videoloader.indexing import IndexStore, VideoIndex, build_index, open_source
from videoloader.indexing.forks import after_fork
from videoloader.indexing.sources import SourceState, state_of
from videoloader.indexing.store.cache import IndexCache
from videoloader.order.clip_table import EntryFrames

# Bytes of indexes kept, some ten thousand videos' of a few hundred frames.
_CAPACITY = 256 << 20


class _Files:
    """Indexes out of the files themselves."""

    def look_up(self, source: str, /) -> tuple[VideoIndex, SourceState | None]:
        opened = open_source(source)
        return build_index(opened), state_of(opened)


class VideoIndexes:
    """Looks videos up in a store, or indexes them, when they are first asked for; those used last are kept.

    Args:
        store: that the videos are in, or its path; without one they are indexed here.
    """

    def __init__(self, store: IndexStore | str | os.PathLike[str] | None) -> None:
        opened = IndexStore(store) if isinstance(store, str | os.PathLike) else store
        self._kept = IndexCache(
            _Files() if opened is None else opened, _CAPACITY, compare=opened is None or opened.verify
        )
        self._start_threads()
        after_fork(self._start_threads)

    def _start_threads(self) -> None:
        self._threads = ThreadPoolExecutor(available_cores(), "videoloader-index")

    def look_up(self, paths: Iterable[str]) -> None:
        """Have the indexes of videos at hand, several at a time.

        Raises:
            VideoLoaderError: a video cannot be indexed.
            NotIndexedError: a video is not in the store.
        """
        unknown = [path for path in dict.fromkeys(paths) if path not in self._kept]
        if len(unknown) > 1:
            list(self._threads.map(self._kept.__getitem__, unknown))

    def frames_of(self, entry: VideoEntry) -> EntryFrames:
        """The frames that an entry means.

        Raises:
            VideoLoaderError: the video cannot be indexed, or the entry's range lies outside it.
            NotIndexedError: the video is not in the store.
        """
        return EntryFrames(entry, *entry_range(entry, self._kept[entry.path]), self._kept)
