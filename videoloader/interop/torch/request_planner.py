"""Plans the clips that requests ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from videoloader.batching.clip_plan import PlannedClip, plan_views
from videoloader.errors import ConfigurationError
from videoloader.interop.torch.clip_request import ClipRequest
from videoloader.interop.torch.video_indexes import VideoIndexes
from videoloader.order.clip_table import EntryFrames
from videoloader.sampling import clip_rng
from videoloader.transforms.planning.pipeline import TransformPlan, arrange_transforms


@dataclass(frozen=True, eq=False)
class RequestPlanner:
    """Plans the clips of requests.

    Attributes:
        indexes: the videos' indexes.
        transforms: transforms of all clips; a request may replace those that crop and resize.
        seed: the seed of requests without one.
        shard: number of this process's shard, and the number of shards.
    """

    indexes: VideoIndexes
    transforms: TransformPlan
    seed: int
    shard: tuple[int, int]

    def plan(self, requests: Sequence[ClipRequest], epoch: int, number: int) -> list[PlannedClip]:
        """Plan the clips of some requests; ``number`` counts the earlier requests in the epoch."""
        videos = self.indexes.frames_of([(request.video, request.source) for request in requests])
        return [
            self._plan_one(request, video, epoch, number + row)
            for row, (request, video) in enumerate(zip(requests, videos, strict=True))
        ]

    def _plan_one(self, request: ClipRequest, video: EntryFrames, epoch: int, number: int) -> PlannedClip:
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
        (planned,) = plan_views(number, video, request.clip, request.mode, transforms, [rng])
        return planned
