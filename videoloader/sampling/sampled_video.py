"""What a frame mode sees of a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
class AllFrames:
    """All frames of a video that stands in no table."""

    index: VideoIndex

    @property
    def first(self) -> int:
        """0."""
        return 0

    @property
    def stop(self) -> int:
        """Number of frames."""
        return len(self.index)

    @property
    def columns(self) -> Mapping[str, Any]:
        """None."""
        return {}
