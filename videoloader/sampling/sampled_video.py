"""The view of a video that frame modes get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from videoloader.indexing.index import VideoIndex


class SampledVideo(Protocol):
    """The frames ``[first, stop)`` of a video that a mode may choose from, with their times and the facts about them.

    Attributes:
        first, stop: int. The frame numbers; 0 and ``len(index)`` for a whole video.
        index: VideoIndex. The index of the whole video.
        columns: mapping. The other columns of the data set's row, by name; empty for a video that is in no data set.
    """

    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def index(self) -> VideoIndex: ...
    @property
    def columns(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, eq=False)
class VideoPart:
    """A ``SampledVideo`` made of plain values."""

    first: int
    stop: int
    index: VideoIndex
    columns: Mapping[str, Any] = field(default_factory=dict)


class AllFrames(VideoPart):
    """All frames of a video that is in no data set."""

    def __init__(self, index: VideoIndex) -> None:
        super().__init__(0, len(index), index)
