"""What a frame mode sees of a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from videoloader.indexing.index import VideoIndex


class SampledVideo(Protocol):
    """The frames ``[first, stop)`` of a video that a mode may choose from, their times, and what is known of them.

    Attributes:
        first, stop: frame numbers; 0 and ``len(index)`` for a whole video.
        index: the table of the whole video.
        columns: the other columns of the data set's row, by name; empty for a video without one.
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
    """A ``SampledVideo`` in plain values."""

    first: int
    stop: int
    index: VideoIndex
    columns: Mapping[str, Any] = field(default_factory=dict)


class AllFrames(VideoPart):
    """All frames of a video that stands in no table."""

    def __init__(self, index: VideoIndex) -> None:
        super().__init__(0, len(index), index)
