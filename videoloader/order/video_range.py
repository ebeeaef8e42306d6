"""One entry of a data set as frame modes see it, and where its index is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from videoloader.dataset import VideoEntry
from videoloader.errors import IndexingError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.unopened import read_unopened


class Indexes(Protocol):
    """Maps paths to indexes."""

    def __getitem__(self, path: str, /) -> VideoIndex: ...
    def __setitem__(self, path: str, index: VideoIndex, /) -> None: ...


class Unopened:
    """The indexes of files that were not opened yet: one is read each time its index is requested."""

    def __getitem__(self, path: str, /) -> VideoIndex:
        return read_unopened(path)[1]

    def __setitem__(self, path: str, index: VideoIndex, /) -> None:
        return


UNOPENED = Unopened()


@dataclass(eq=False)
class SameIndex:
    """The same index for every path: that of a single video, or one that many share. A shared one must not be set."""

    known: VideoIndex

    def __getitem__(self, path: str, /) -> VideoIndex:
        return self.known

    def __setitem__(self, path: str, index: VideoIndex, /) -> None:
        self.known = index


@dataclass(eq=False, slots=True)
class VideoRange:
    """One entry of the data set with its range of frames, as a ``SampledVideo`` for frame modes.

    Attributes:
        entry: the row of the data set.
        first, stop: the range of frames it means.
        indexes: the mapping that holds its index.
        row: its row in the data set; -1 without a data set.
        source: its bytes; None to open the entry's path.
    """

    entry: VideoEntry
    first: int
    stop: int
    indexes: Indexes
    row: int = -1
    source: ByteSource | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """The other columns of the entry."""
        return self.entry.columns

    @property
    def index(self) -> VideoIndex:
        """The index of the whole video. A corrected one may replace it, but its frames stay the same.

        Raises:
            IndexingError: the range of frames ends beyond it, as only an edited file can say.
        """
        index = self.indexes[self.entry.path].with_times(self.entry.times)
        if self.stop > len(index):
            told = f"a saved range of frames ends at {self.stop}, but the video has {len(index)} frames"
            raise IndexingError(f"{told}: save the data set again", self.entry.path)
        return index

    @index.setter
    def index(self, known: VideoIndex) -> None:
        self.indexes[self.entry.path] = known.with_times("start")
