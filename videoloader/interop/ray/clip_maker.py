"""Makes clips by number in a worker of a cluster."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
import torch

from videoloader.batching.account import nothing_made
from videoloader.batching.batch import BY_FRAME, Batch
from videoloader.batching.batch_maker import BatchMaker
from videoloader.batching.clip_plan import ClipPlanner, PlannedClip
from videoloader.batching.made_batch import BatchRequest
from videoloader.batching.options import RaiseOrSkip
from videoloader.batching.rows import stack_if_alike
from videoloader.convert.spec import Layout
from videoloader.errors import DecodeError, VideoWarning
from videoloader.interop.ray.skipped import SkippedClips
from videoloader.interop.ray_workers import own_device
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.corrupt_frames import KeepRaiseOrSkip
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime.device import resolve_device

# A video that kills its decoder does so every time, and Ray retries forever when workers die.
_MOST_ATTEMPTS = 3

Column = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ClipRecipe:
    """Everything that a clip's content depends on besides its number.

    Attributes:
        planner: the clips, and the rules that choose and transform them.
        layout: order of a clip's dimensions.
        epoch: the epoch of all randomness.
    """

    planner: ClipPlanner
    layout: Layout
    epoch: int


class ClipMaker:
    """An actor that makes clips in worker threads with decoders that stay open.

    Args:
        recipe: recipe of the clips.
        cores: number of cores that may be used.
        on_error, on_corrupt: see ``read_clips``.
        skipped: account of skipped clips; without it there is a warning for each.
        columns: names of the columns that rows have; None for all.
        attempts: the actor ``Attempts``, which counts the attempts at each call.
    """

    def __init__(
        self,
        recipe: ray.ObjectRef[ClipRecipe],
        cores: int,
        on_error: RaiseOrSkip,
        on_corrupt: KeepRaiseOrSkip,
        skipped: SkippedClips | None,
        columns: Collection[str] | None,
        attempts: Any,
    ) -> None:
        # PyTorch's own threads would take the cores of other actors.
        torch.set_num_threads(cores)
        self._recipe: ClipRecipe = ray.get(recipe)
        self._skipped, self._columns, self._attempts = skipped, columns, attempts
        # One call at a time, so that it is known which one killed an actor.
        self._decoding = threading.Lock()
        device = resolve_device(own_device())
        self._maker = BatchMaker(
            DecodeWorkers(device, num_workers=None if device.type == "cuda" else cores, cpu_workers=cores),
            self._recipe.planner.rule.transforms,
            self._recipe.layout,
            device,
            cache=None,
            on_error=on_error,
            on_corrupt=on_corrupt,
        )

    def __call__(self, batch: dict[str, Column]) -> Iterator[dict[str, Column]]:
        """Make clips as columns; see ``read_clips``. Clips that are left out have no row.

        Raises:
            DecodeError, SourceError, UnsupportedError: a clip cannot be made, and ``on_error`` does not skip it.
            SourceError: no clip of the whole job can be made; the last call to end raises it.
        """
        clips = batch["clip"].tolist()
        with self._decoding:
            if ray.get(self._attempts.begin.remote(clips[0])) > _MOST_ATTEMPTS:
                raise DecodeError(f"{_MOST_ATTEMPTS} workers died while they made clips {clips[0]} to {clips[-1]}")
            rows: dict[str, Column] = {}
            unreadable: list[tuple[PlannedClip, str]] = []
            try:
                rows, unreadable = self._make(clips)
            finally:
                left_out = len(clips) if unreadable and not rows else 0
                none_made = ray.get(self._attempts.end.remote(clips[0], left_out))
            if none_made and unreadable:
                (clip, reason), number = unreadable[0], len(self._recipe.planner.table)
                raise nothing_made(number, clip.video.entry.path, reason)
        if rows:
            yield rows

    def _make(self, clips: Sequence[int]) -> tuple[dict[str, Column], list[tuple[PlannedClip, str]]]:
        recipe, token = self._recipe, CancelToken()
        planned = [view for clip in clips for view in recipe.planner.plan(clip, recipe.epoch)]
        (making,) = self._maker.start([BatchRequest(lambda: planned, stack_if_alike(planned))], token)
        try:
            made = making.result().hand_over()
        finally:
            token.cancel()  # ends what is still being decoded after an error
        for clip, error in making.unreadable:
            if self._skipped is None:
                warnings.warn(f"clip {clip.number} left out: {error}", VideoWarning, stacklevel=2)
            else:
                self._skipped.add(clip.number, clip.video.entry.path, error)
        if made is None:
            return {}, making.unreadable
        columns = self._columns_of(made)
        if self._columns is not None:
            columns = {name: columns[name] for name in columns if name in self._columns}
        return columns, making.unreadable

    def _columns_of(self, batch: Batch) -> dict[str, Column]:
        names = self._recipe.planner.table.dataset.table.columns
        return {
            "path": _objects(batch.paths),
            "clip": batch.clips,
            "row": batch.rows,
            "label": _column(batch.labels),
            **{name: _column(getattr(batch, name)) for name in BY_FRAME},
            **{name: _objects([columns.get(name) for columns in batch.columns]) for name in names},
            "frames": _column(batch.frames),
            **({} if batch.roles is None else _roles(batch)),
        }


def _roles(batch: Batch) -> dict[str, Column]:
    assert batch.roles is not None
    places = {
        f"{name}_places": np.tile(np.array(each, np.int64), (len(batch), 1))
        for name, each in zip(("input", "target"), batch.roles, strict=True)
    }
    return {**places, "target_times": _column(batch.target_times)}


def _column(values: Any) -> Column:
    """Values of the batch's rows as an array; as an array of arrays where their shapes differ."""
    if isinstance(values, list):
        rows = [_column(row) for row in values]
        return np.stack(rows) if len({row.shape for row in rows}) == 1 else _objects(rows)
    column: Column = values.cpu().numpy() if isinstance(values, torch.Tensor) else values
    return column


def _objects(values: Sequence[Any]) -> Column:
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column
