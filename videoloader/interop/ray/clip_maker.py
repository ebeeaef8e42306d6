"""Clips by their numbers in a data set: what one worker of a cluster makes, out of what it was sent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.batch import collate_rows
from videoloader.batching.clip_plan import BatchRow, ClipPlanner, PlannedClip
from videoloader.batching.row_decoding import UNREADABLE, SubmittedJob, submit_rows
from videoloader.batching.rows import arrange_rows, decoding_memory, transform_rows
from videoloader.convert import Layout
from videoloader.device import hand_over, resolve_device
from videoloader.interop.ray.skipped import SkippedClips
from videoloader.reading.workers import DecodeWorkers

Column = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ClipRecipe:
    """All that the content of a clip depends on, besides its number.

    Attributes:
        planner: the clips, and how they are chosen and transformed.
        layout: order of a clip's dimensions.
        epoch: the epoch of all randomness.
    """

    planner: ClipPlanner
    layout: Layout
    epoch: int

    def plan(self, clip: int) -> PlannedClip:
        """What a clip consists of, from the index alone."""
        (planned,) = self.planner.plan(clip, self.epoch)
        return planned


class ClipMaker:
    """Makes clips in worker threads, with decoders that stay open. Any number of threads may ask for clips at once.

    Args:
        recipe: of the clips.
        device: where they are decoded and converted; see ``VideoLoader``.
        cores: that may be used.
        skip_unreadable: leave clips out that cannot be made, instead of raising.
        skipped: where these are put down; without one they are told of in warnings.
    """

    def __init__(
        self, recipe: ClipRecipe, device: str, cores: int, *, skip_unreadable: bool, skipped: SkippedClips | None
    ) -> None:
        resolved = resolve_device(device)
        self._recipe, self._skip_unreadable, self._skipped = recipe, skip_unreadable, skipped
        self._memory = decoding_memory(recipe.planner.transforms, recipe.layout, resolved)
        on_gpu = resolved.type == "cuda"
        self._workers = DecodeWorkers(resolved, num_workers=None if on_gpu else cores, cpu_workers=cores)

    def make(self, clips: Sequence[int]) -> dict[str, Column]:
        """The clips as columns; see ``read_clips``. Clips that are left out have no row.

        Raises:
            DecodeError, SourceError, UnsupportedError: a clip cannot be made, and is not to be left out.
        """
        planned = [self._recipe.plan(clip) for clip in clips]
        stacked: torch.Tensor | None = None
        if len({clip.shape for clip in planned}) == 1:
            stacked, rows = arrange_rows(planned, "stack", self._memory)
        else:
            _, rows = arrange_rows(planned, "list", self._memory)
        kept = self._decode(rows)
        if len(kept) < len(rows):
            stacked = None
        made = transform_rows(self._recipe.planner.transforms, stacked, kept, self._recipe.layout) if kept else []
        frames = _column([clip.cpu().numpy() for clip in made]) if isinstance(made, list) else made.cpu().numpy()
        return self._columns(frames, kept)

    def _decode(self, rows: list[BatchRow]) -> list[BatchRow]:
        """Decode into the rows; those that could be made."""
        jobs = submit_rows(self._workers, rows, self._recipe.planner.transforms.decoded, None)
        wait([job.report for job in jobs])
        failed: list[BatchRow] = []
        for job in jobs:
            try:
                self._accept(job, rows)
            except UNREADABLE:
                if not self._skip_unreadable:
                    raise
                failed += [row for row in job.rows if row not in failed]
        # A job is of several clips: by itself a clip may decode.
        for row in failed:
            try:
                (again,) = submit_rows(self._workers, [row], self._recipe.planner.transforms.decoded, None)
                self._accept(again, [row])
            except UNREADABLE as error:
                row.left_out = True
                self._put_down(row.clip, error)
        return [row for row in rows if not row.left_out]

    def _accept(self, job: SubmittedJob, rows: Sequence[BatchRow]) -> None:
        hand_over(self._memory.device, job.result().ready, [row.frames for row in rows])

    def _put_down(self, clip: PlannedClip, error: Exception) -> None:
        if self._skipped is None:
            warnings.warn(f"clip {clip.number} left out: {error}", RuntimeWarning, stacklevel=2)
        else:
            self._skipped.add(clip.number, clip.video.entry.path, str(error))

    def _columns(self, frames: Column, rows: list[BatchRow]) -> dict[str, Column]:
        names = self._recipe.planner.table.dataset.table.columns
        if not rows:
            return {}
        batch = collate_rows([row.frames for row in rows], rows)
        return {
            "path": _objects(batch.paths),
            "clip": batch.clips,
            "label": batch.labels.cpu().numpy(),
            "frame_numbers": _column(batch.frame_numbers),
            "timestamps": _column(batch.timestamps),
            "mask": _column(batch.mask),
            "corrupt": _column(batch.corrupt),
            **{name: _objects([columns.get(name) for columns in batch.columns]) for name in names},
            "frames": frames,
        }


def _column(arrays: list[Column]) -> Column:
    """Arrays of one shape stacked, others as they are."""
    same = len({array.shape for array in arrays}) == 1
    return np.stack(arrays) if same else _objects(arrays)


def _objects(values: Sequence[Any]) -> Column:
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column
