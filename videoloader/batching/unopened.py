"""Clips of unopened files as columns: their batches are planned, made and collated without an object for each clip.

A GPU's JPEG engines make tens of thousands of images a second, more than Python can make objects for. If the engines
cannot make a row, all rows of its batch become objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import ClipPlanner, ClipRule, PlannedClip
from videoloader.batching.image_clips import MadeImage, MadeImages, WantedImage, WantedImages
from videoloader.batching.rows import BatchRow
from videoloader.convert.spec import Layout
from videoloader.dataset.table import NONE

T = TypeVar("T")
# Images that take about as long as a clip of a small video.
_IMAGES_A_CLIP = 16


@dataclass(frozen=True, eq=False)
class UnopenedClips:
    """Some clips of files that have not been opened yet: images, or folders of them.

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

    def wanted(self) -> WantedImages:
        """The clips, as a process needs them."""
        table, ranges = self.planner.table.dataset.table, self.planner.table.ranges
        videos, within = self.planner.table.places(self.clips)
        rows = ranges.rows[videos]
        labels = [None if label == NONE else label for label in table.label[rows].tolist()]
        numbers = self.clips.tolist(), within.tolist(), ranges.stop[videos].tolist(), rows.tolist()
        return WantedImages(
            WantedImage(self.epoch, clip, clip_in_video, frames, row, path, label, {}, "start")
            for clip, clip_in_video, frames, row, path, label in zip(
                *numbers, table.path.take(rows)[:], labels, strict=True
            )
        )

    def part(self, first: int, stop: int) -> UnopenedClips:
        """The clips from ``first`` to before ``stop``."""
        return UnopenedClips(self.planner, self.clips[first:stop], self.epoch, self.repeated[first:stop])

    def planned(self) -> list[PlannedClip]:
        """The views of all clips, as objects."""
        return list(chain.from_iterable(self.planner.plan_all(self.clips, self.epoch, self.repeated)))


def unopened_clips(
    planner: ClipPlanner, clips: npt.NDArray[np.int64], epoch: int, repeated: npt.NDArray[np.bool_]
) -> UnopenedClips | None:
    """Some clips as columns; None unless all are from unopened files and none needs individual treatment.

    Args:
        planner: the planner of the clips.
        clips, epoch, repeated: see ``UnopenedClips``.
    """
    table = planner.table.dataset.table
    videos, _ = planner.table.places(clips)
    if not len(clips) or not planner.table.ranges.unopened[videos].all() or not planner.rule.is_own:
        return None
    if table.columns or table.in_pts[planner.table.ranges.rows[videos]].any():
        return None
    expected = planner.expected_views
    if len({view.shape for view in expected}) > 1 or expected[0].roles is not None:
        return None
    return UnopenedClips(planner, clips, epoch, repeated)


@dataclass(eq=False)
class ImageRows:
    """Rows of a batch whose clips are of files that have not been opened yet.

    Attributes:
        frames: the memory of each row, as one tensor for unopened clips.
        layout: order of a clip's dimensions.
        rule: the rule by which the clips are drawn.
        wanted: the clips, as a process needs them.
        rows: the rows, all views of a clip one after the other; empty for unopened clips as long as they are columns.
        clips: the clips as columns; None where they are objects.
        made: the outcome of unopened clips, if they are all columns.
    """

    frames: torch.Tensor | list[torch.Tensor]
    layout: Layout
    rule: ClipRule
    wanted: WantedImages
    rows: list[BatchRow] = field(default_factory=list)
    clips: UnopenedClips | None = None
    made: MadeImages | None = None

    @property
    def num_clips(self) -> int:
        """The number of clips, each of which has a row for each of its views."""
        return len(self.frames) // self.rule.num_views

    @property
    def frames_each(self) -> int:
        """The number of frames that each clip probably has."""
        return (self.rows[0].clip if self.clips is None else self.clips.planner.expected_views[0]).shape[0]

    def parts(self, clips: int) -> Iterator[ImageRows]:
        """Parts of so many clips."""
        views = self.rule.num_views
        for first in range(0, self.num_clips, clips):
            some = slice(first * views, (first + clips) * views)
            columns = None if self.clips is None else self.clips.part(first, first + clips)
            wanted = WantedImages(self.wanted[first : first + clips])
            yield ImageRows(self.frames[some], self.layout, self.rule, wanted, self.rows[some], columns)

    @property
    def as_clips(self) -> float:
        """The number of clips of small videos that would take as long to make."""
        return self.num_clips * self.frames_each / _IMAGES_A_CLIP

    def objects(self) -> list[BatchRow]:
        """All rows as objects."""
        if self.clips is not None and not self.rows:
            self.rows += map(partial(BatchRow, layout=self.layout), self.clips.planned(), self.frames)
            for image, rows in self.with_rows(self.made.outcomes() if self.made else ()):
                assert isinstance(image, MadeImage), "columns are made"
                for row in rows:
                    image.put_into(row)
        return self.rows

    def with_rows(self, of_clips: Iterable[T]) -> Iterator[tuple[T, list[BatchRow]]]:
        """Pair one item for each clip with the clip's rows."""
        views = self.rule.num_views
        for at, each in enumerate(of_clips):
            yield each, self.rows[at * views : (at + 1) * views]


def wanted_image(clip: PlannedClip) -> WantedImage:
    """A clip that is not drawn yet, as a process needs it."""
    assert clip.undrawn is not None
    entry, (_, epoch, clip_in_video) = clip.video.entry, clip.undrawn
    return WantedImage(
        epoch,
        clip.number,
        clip_in_video,
        clip.video.stop,
        clip.video.row,
        entry.path,
        entry.label,
        entry.columns,
        entry.times,
    )
