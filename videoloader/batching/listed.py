"""Clips of image files as columns: their batches are planned, made and collated without an object for each clip.

A GPU's JPEG engines make tens of thousands of images a second, more than Python can make objects for. If the engines
cannot make a row, all rows of its batch become objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.batch import Batch
from videoloader.batching.clip_plan import BatchRow, ClipPlanner, DrawRule, PlannedClip
from videoloader.batching.image_clips import SEEN, PreparedViews, WantedImages, show_view
from videoloader.convert import Layout
from videoloader.dataset.table import NONE
from videoloader.reading.decode_job import frame_times
from videoloader.transforms.planning.pipeline import DrawnView


@dataclass(frozen=True, eq=False)
class ListedClips:
    """Some clips of image files that have not been opened yet.

    Attributes:
        planner: the planner, which makes objects of them if necessary.
        clips: int64[N], their numbers in the data set.
        epoch: number of the epoch.
        repeated: bool[N]; see ``PlannedClip.repeated``.
    """

    planner: ClipPlanner
    clips: npt.NDArray[np.int64]
    epoch: int
    repeated: npt.NDArray[np.bool_]

    @property
    def rule(self) -> DrawRule:
        """The rule by which the clips are drawn."""
        return self.planner.rule

    @property
    def views(self) -> int:
        """The number of views of each clip."""
        return len(self.planner.likely)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The probable shape of their views."""
        return self.planner.likely[0].shape

    @cached_property
    def wanted(self) -> WantedImages:
        """The columns that a process needs to make the clips."""
        table, ranges = self.planner.table.dataset.table, self.planner.table.ranges
        videos, within = self.planner.table.places(self.clips)
        rows, count = ranges.rows[videos], len(videos)
        labels = [None if label == NONE else label for label in table.label[rows].tolist()]
        paths, times = table.path.take(rows)[:], ["start"] * count
        numbers = self.clips.tolist(), within.tolist(), rows.tolist()
        return WantedImages(self.epoch, *numbers, paths, labels, [{}] * count, times)  # type: ignore[arg-type]

    def part(self, first: int, stop: int) -> ListedClips:
        """The clips from ``first`` to before ``stop``."""
        return ListedClips(self.planner, self.clips[first:stop], self.epoch, self.repeated[first:stop])

    def planned(self) -> list[list[PlannedClip]]:
        """The views of each clip, as objects."""
        return list(self.planner.plan_all(self.clips, self.epoch, self.repeated))


def list_clips(
    planner: ClipPlanner, clips: npt.NDArray[np.int64], epoch: int, repeated: npt.NDArray[np.bool_]
) -> ListedClips | None:
    """Some clips as columns; None unless all are from unopened image files and none needs individual treatment.

    Args:
        planner: the planner of the clips.
        clips, epoch, repeated: see ``ListedClips``.
    """
    table = planner.table.dataset.table
    videos, _ = planner.table.places(clips)
    if not len(clips) or not planner.table.ranges.unopened[videos].all() or not planner.rule.is_own:
        return None
    if table.columns or table.in_pts[planner.table.ranges.rows[videos]].any():
        return None
    likely = planner.likely
    if len({view.shape for view in likely}) > 1 or len(likely[0].frame_numbers) != 1 or likely[0].roles is not None:
        return None
    return ListedClips(planner, clips, epoch, repeated)


class ListedRows:
    """Rows of a batch that show listed clips.

    Args:
        listed: the clips.
        frames: their part of the batch, a row for each view.
        layout: order of a clip's dimensions.

    Attributes:
        listed, frames, layout: as given.
        views: the views that the engines have made.
        left: the other rows, whose clips are made one by one.
    """

    def __init__(self, listed: ListedClips, frames: torch.Tensor, layout: Layout) -> None:
        self.listed, self.frames, self.layout = listed, frames, layout
        self.views: PreparedViews | None = None
        self.left: list[BatchRow] = []
        self._places_left: list[int] = []

    def leave(self, clips: Iterable[int]) -> list[list[BatchRow]]:
        """Make rows for the views of some clips, and add them to ``left``."""
        planned, count = self.listed.planned(), self.listed.views
        rows = []
        for clip in clips:
            places = range(clip * count, (clip + 1) * count)
            views = zip(planned[clip], self.frames[places.start : places.stop], strict=True)
            rows.append([BatchRow(view, frames, self.layout) for view, frames in views])
            self.left += rows[-1]
            self._places_left += places
        return rows

    def one_by_one(self) -> list[BatchRow]:
        """All rows as objects, in order."""
        rows = dict(zip(self._places_left, self.left, strict=True))
        planned = [view for views in self.listed.planned() for view in views]
        there = [at for at in range(len(planned)) if at not in rows]
        for at, view in zip(there, self.views.each() if self.views is not None else (), strict=True):
            rows[at] = BatchRow(planned[at], self.frames[at], self.layout)
            show_view(rows[at], view)
        return [rows[at] for at in range(len(planned))]


class PackedViews(Sequence[DrawnView]):
    """``Batch.drawn`` as other processes pickled it; it is unpickled on first access."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = list(packed)

    @cached_property
    def _views(self) -> list[DrawnView]:
        return [view for each in self._packed for view in pickle.loads(each)]

    def __len__(self) -> int:
        return len(self._views)

    @overload
    def __getitem__(self, at: int) -> DrawnView: ...
    @overload
    def __getitem__(self, at: slice) -> list[DrawnView]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self._views[at]


def collate_listed(frames: torch.Tensor, parts: Sequence[ListedRows], layout: Layout) -> Batch:
    """Make a batch whose rows the engines have all made; see ``collate_rows``.

    Args:
        frames: the frames of the batch.
        parts: its rows.
        layout: order of a clip's dimensions.
    """
    made = [part.views for part in parts if part.views is not None]
    wanted = [part.listed.wanted for part in parts]
    count = parts[0].listed.views

    def column(name: str) -> list[Any]:
        return [each for part in wanted for each in getattr(part, name) for _ in range(count)]

    labels = np.array([-1 if label is None else label for label in column("labels")], np.int64)
    numbers = np.concatenate([views.frame_numbers for views in made])[:, None]
    return Batch(
        frames,
        torch.from_numpy(labels).to(frames.device, non_blocking=True),
        numbers,
        frame_times(SEEN, numbers),
        np.concatenate([views.mask for views in made])[:, None],
        np.zeros(numbers.shape, np.bool_),
        column("paths"),
        np.array(column("clips"), np.int64),
        np.array(column("rows"), np.int64),
        np.repeat(np.concatenate([part.listed.repeated for part in parts]), count),
        np.tile(np.arange(count), len(numbers) // count),
        column("columns"),
        np.concatenate([views.boxes for views in made]),
        np.concatenate([views.matrices for views in made]),
        PackedViews([views.drawn for views in made]),
        layout=layout,
    )
