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
from videoloader.batching.clip_plan import BatchRow, PlannedClip, plan_views
from videoloader.batching.decode_jobs import UNREADABLE, hand_over, submit_rows
from videoloader.batching.rows import arrange_rows, decoding_memory, transform_rows
from videoloader.convert import Layout
from videoloader.device import resolve_device
from videoloader.interop.ray.skipped import SkippedClips
from videoloader.order.clip_table import ClipTable
from videoloader.reading.clip_reader import ClipsReport
from videoloader.reading.workers import DecodeWorkers
from videoloader.sampling import FrameMode, clip_rng
from videoloader.transforms import TransformPlan

Column = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ClipRecipe:
    """All that the content of a clip depends on, besides its number.

    Attributes:
        table: the clips.
        mode: how their frames are chosen.
        transforms: of each clip.
        layout: order of a clip's dimensions.
        seed, epoch: of all randomness.
    """

    table: ClipTable
    mode: FrameMode
    transforms: TransformPlan
    layout: Layout
    seed: int
    epoch: int

    def plan(self, clip: int) -> PlannedClip:
        """What a clip consists of, from the index alone."""
        video, number = self.table[clip]
        rng = clip_rng(self.seed, self.epoch, clip)
        (planned,) = plan_views(clip, video, number, self.mode, self.transforms, [rng])
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
        self._memory = decoding_memory(recipe.transforms, recipe.layout, resolved)
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
        made = transform_rows(self._recipe.transforms, stacked, kept, self._recipe.layout) if kept else []
        frames = _column([clip.cpu().numpy() for clip in made]) if isinstance(made, list) else made.cpu().numpy()
        return self._columns(frames, kept)

    def _decode(self, rows: list[BatchRow]) -> list[BatchRow]:
        """Decode into the rows; those that could be made."""
        jobs = submit_rows(self._workers, rows, self._recipe.transforms.decoded, None)
        wait([job.report for job in jobs])
        failed: list[BatchRow] = []
        for report, of_rows in jobs:
            try:
                self._accept(report.result(), rows)
            except UNREADABLE:
                if not self._skip_unreadable:
                    raise
                failed += [row for row in of_rows if row not in failed]
        # A job is of several clips: by itself a clip may decode.
        for row in failed:
            try:
                (again,) = submit_rows(self._workers, [row], self._recipe.transforms.decoded, None)
                self._accept(again.report.result(), [row])
            except UNREADABLE as error:
                row.left_out = True
                self._put_down(row.clip, error)
        return [row for row in rows if not row.left_out]

    def _accept(self, report: ClipsReport, rows: Sequence[BatchRow]) -> None:
        hand_over([report], [row.frames for row in rows], self._memory.device)

    def _put_down(self, clip: PlannedClip, error: Exception) -> None:
        if self._skipped is None:
            warnings.warn(f"clip {clip.number} left out: {error}", RuntimeWarning, stacklevel=2)
        else:
            self._skipped.add(clip.number, clip.video.entry.path, str(error))

    def _columns(self, frames: Column, rows: list[BatchRow]) -> dict[str, Column]:
        names = self._recipe.table.dataset.table.columns
        if not rows:
            return {}
        batch = collate_rows(frames, rows, _column)
        return {
            "path": _objects(batch.paths),
            "clip": batch.clips,
            "label": batch.labels.cpu().numpy(),
            "frame_numbers": batch.frame_numbers,
            "timestamps": batch.timestamps,
            "mask": batch.mask,
            "corrupt": batch.corrupt,
            **{name: _objects([columns.get(name) for columns in batch.columns]) for name in names},
            "frames": batch.frames,
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
