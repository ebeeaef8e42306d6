"""Plans the clips that requests ask for, and looks up or builds the indexes of their videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from videoloader.batching.clip_plan import ClipRule, PlannedClip
from videoloader.dataset import VideoEntry, entry_range
from videoloader.errors import ConfigurationError
from videoloader.indexing import ByteSource, IndexStore, VideoIndex, build_index
from videoloader.indexing.images.frame_times import odd_times_of, tell_of_frame_times
from videoloader.indexing.sources.opening import open_anew
from videoloader.indexing.store.cache import IndexCache
from videoloader.interop.torch.clip_request import ClipRequest
from videoloader.order.video_range import Indexes, SameIndex, VideoRange
from videoloader.runtime.forks import after_fork
from videoloader.runtime.threads import executor_of
from videoloader.sampling.mode import clip_rng
from videoloader.transforms.planning.pipeline import TransformPipeline, arrange_transforms

# Bytes of indexes to keep: enough for about ten thousand videos of a few hundred frames.
_CAPACITY = 256 << 20

_Video = TypeVar("_Video")


@dataclass(frozen=True, eq=False)
class RequestPlanner:
    """Plans the clips of requests.

    Attributes:
        indexes: the videos' indexes.
        transforms: transforms of all clips; a request may replace those that crop and resize.
        seed: the seed of requests without one.
        shard: number of this process's shard, and the number of shards.
        warned: see ``ClipRule``.
    """

    indexes: VideoIndexes
    transforms: TransformPipeline
    seed: int
    shard: tuple[int, int]
    warned: list[str] = field(default_factory=list)

    def plan(self, requests: Sequence[ClipRequest], epoch: int, number: int) -> list[PlannedClip]:
        """Plan the clips of some requests; ``number`` counts the earlier requests in the epoch."""
        videos = self.indexes.frames_of([(request.video, request.source) for request in requests])
        return [
            self._plan_one(request, video, epoch, number + row)
            for row, (request, video) in enumerate(zip(requests, videos, strict=True))
        ]

    def _plan_one(self, request: ClipRequest, video: VideoRange, epoch: int, number: int) -> PlannedClip:
        if request.seed is None:
            rank, ranks = self.shard
            rng = clip_rng(self.seed, epoch, number * ranks + rank)
        else:
            rng = clip_rng(request.seed, 0, request.clip)
        transforms = self.transforms
        if request.transforms is not None:
            own = arrange_transforms(request.transforms)
            if own.time or not own.fused:
                raise ConfigurationError(
                    "transforms of a request can only cut, resize, flip and pad", request.video.path
                )
            transforms = replace(transforms, conversion=own.one_view().conversion)
        rule = ClipRule(request.mode, transforms, self.seed, warned=self.warned)
        (planned,) = rule.views_by([rng], number, video, request.clip)
        return planned


class _Files:
    """Builds indexes from the files themselves."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def get(self, source: str, /) -> VideoIndex:
        index = build_index(open_anew(source, self._asked))
        tell_of_frame_times([odd_times_of(index)])
        return index


class VideoIndexes:
    """Looks videos up in a store, or indexes them, on first use, and keeps recently used indexes.

    Args:
        store: store of the videos, or its path; without one they are indexed here.
        workers: number of threads that look videos up; 0 to do it in the calling thread.
    """

    def __init__(self, store: IndexStore | str | os.PathLike[str] | None, workers: int) -> None:
        self._workers = workers
        opened = IndexStore(store) if isinstance(store, str | os.PathLike) else store
        self._kept = IndexCache(
            _Files() if opened is None else opened, _CAPACITY, compare=opened is None or opened.verify
        )
        self._start_threads()
        after_fork(self._start_threads)

    def _start_threads(self) -> None:
        self._threads = executor_of(self._workers, "videoloader-index")

    def frames_of(self, videos: Sequence[tuple[VideoEntry, ByteSource | None]]) -> list[VideoRange]:
        """The range of frames of each entry. Several videos are looked up, or indexed, at a time.

        Args:
            videos: entries, with their bytes if they have no path. Bytes are indexed each time.

        Raises:
            VideoLoaderError: a video cannot be indexed, or the entry's range lies outside it.
            NotIndexedError: a video is not in the store.
        """
        given = [source for _, source in videos if source is not None]
        unknown = dict.fromkeys(entry.path for entry, source in videos if source is None)
        self._several(self._kept.__getitem__, [path for path in unknown if path not in self._kept])
        made = iter(self._several(build_index, given))
        found: list[VideoRange] = []
        for entry, source in videos:
            indexes: Indexes = self._kept if source is None else SameIndex(next(made))
            found.append(VideoRange(entry, *entry_range(entry, indexes[entry.path]), indexes, source=source))
        return found

    def _several(self, make: Callable[[_Video], VideoIndex], videos: Sequence[_Video]) -> list[VideoIndex]:
        return list(self._threads.map(make, videos) if len(videos) > 1 else map(make, videos))
