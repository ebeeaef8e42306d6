"""Collates rows to a batch: the fields of ``Batch`` get their values here.

Rows are objects (``collate_rows``), or columns for image files that were not opened before (``collate_columns``). The
samples of ``ClipDataset``, which may come from other processes, are collated in ``interop/torch/clip_dataset.py``.
"""

from __future__ import annotations

import pickle
from collections import UserList
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.batch import BY_FRAME, Batch, ListBatch
from videoloader.batching.rows import BatchRow
from videoloader.batching.unopened import ImageRows
from videoloader.convert.spec import Layout
from videoloader.reading.clip import Clip, frame_times
from videoloader.runtime.cached_property import cached_property
from videoloader.sampling.roles import target_times
from videoloader.transforms.geometry.coordinates import picture_box
from videoloader.transforms.geometry.source_matrix import source_matrices
from videoloader.transforms.planning.pipeline import DrawnView


def clip_of(batch: Batch, row: int) -> Clip:
    """One clip of a batch, as ``Video.read`` returns it."""
    by_frame = {name: getattr(batch, name)[row] for name in BY_FRAME}
    target_times = None if batch.roles is None else batch._target_times[row]
    return Clip(batch.frames[row], **by_frame, layout=batch.layout, roles=batch.roles, _target_times=target_times)


@overload
def collate_rows(frames: torch.Tensor, rows: Sequence[BatchRow], layout: Layout) -> Batch: ...


@overload
def collate_rows(frames: list[torch.Tensor], rows: Sequence[BatchRow], layout: Layout) -> ListBatch: ...


def collate_rows(frames: Any, rows: Sequence[BatchRow], layout: Layout) -> Batch:
    """Make a batch of rows whose frames are already in place.

    Args:
        frames: the frames of the batch; a list for a ``ListBatch``.
        rows: rows of the batch, at least one.
        layout: order of a clip's dimensions.
    """
    join: Callable[[list[npt.NDArray[Any]]], Any] = _copies if isinstance(frames, list) else np.stack
    clips = [row.clip for row in rows]
    drawn = [clip.drawn for clip in clips]
    roles = clips[0].roles if len({clip.roles for clip in clips}) == 1 else None
    targets = [] if roles is None else [target_times(clip.video.index, clip.frame_numbers, roles) for clip in clips]
    entries = ((clip, clip.video.entry) for clip in clips)
    return batch_of(
        frames,
        rows[0].frames.device,
        [(clip.number, clip.video.row, entry.path, entry.label, entry.columns) for clip, entry in entries],
        frame_numbers=join([clip.frame_numbers for clip in clips]),
        timestamps=join([frame_times(clip.video.index, clip.frame_numbers) for clip in clips]),
        mask=join([clip.mask for clip in clips]),
        corrupt=join([row.corrupt for row in rows]),
        repeated=np.array([clip.repeated for clip in clips], np.bool_),
        views=np.array([clip.view for clip in clips], np.int64),
        boxes=np.array([picture_box(view.geometry) for view in drawn], np.int64),
        source_matrix=source_matrices(drawn),
        drawn=drawn,
        layout=layout,
        roles=roles,
        _target_times=None if roles is None else join(targets),
    )


def batch_of(frames: Any, device: torch.device, rows: Sequence[tuple[Any, ...]], **shown: Any) -> Batch:
    """Make a batch: fill in labels, paths, clips, rows and columns; the caller gives all other fields.

    Args:
        frames: the frames of the batch; a list for a ``ListBatch``.
        device: device of the labels.
        rows: (clip number, row of the data set, path, label or None, columns) of each row.
        shown: all other fields, which tell what the frames show.
    """
    clips, numbers, paths, labels, columns = map(list, zip(*rows, strict=True))
    kind: type[Batch] = ListBatch if isinstance(frames, list) else Batch
    return kind(
        frames,
        labels=torch.from_numpy(_known_labels(labels)).to(device, non_blocking=True),
        paths=paths,
        clips=np.array(clips, np.int64),
        rows=np.array(numbers, np.int64),
        columns=columns,
        **shown,
    )


def _copies(arrays: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    return [array.copy() for array in arrays]  # clips may share arrays


def row_labels(rows: Sequence[BatchRow]) -> npt.NDArray[np.int64]:
    """int64[B]; -1 where an entry has none."""
    return _known_labels([row.clip.video.entry.label for row in rows])


def _known_labels(labels: Sequence[int | None]) -> npt.NDArray[np.int64]:
    return np.array([-1 if label is None else label for label in labels], np.int64)


class PackedViews(UserList[DrawnView]):
    """``Batch.drawn`` as other processes pickled it; it is unpickled on first access."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = list(packed)

    @cached_property
    def data(self) -> list[DrawnView]:  # type: ignore[override]
        return [view for each in self._packed for view in pickle.loads(each)]

    def __getitem__(self, at: Any) -> Any:
        return self.data[at]


def collate_columns(frames: torch.Tensor, parts: Sequence[ImageRows], layout: Layout) -> Batch:
    """Make a batch whose rows are all columns; see ``collate_rows``.

    Args:
        frames: the frames of the batch.
        parts: its rows.
        layout: order of a clip's dimensions.
    """
    made = [part.made for part in parts if part.made is not None]
    views = parts[0].rule.num_views
    wanted = [each for part in parts for each in part.wanted for _ in range(views)]
    numbers = np.concatenate([each.frame_numbers for each in made])
    return batch_of(
        frames,
        frames.device,
        [(each.clip, each.row, each.path, each.label, each.columns) for each in wanted],
        frame_numbers=numbers,
        timestamps=np.concatenate([each.timestamps for each in made]),
        mask=np.concatenate([each.mask for each in made]),
        corrupt=np.zeros(numbers.shape, np.bool_),
        repeated=np.repeat(np.concatenate([part.clips.repeated for part in parts if part.clips is not None]), views),
        views=np.tile(np.arange(views), len(numbers) // views),
        boxes=np.concatenate([each.boxes for each in made]),
        source_matrix=np.concatenate([each.matrices for each in made]),
        drawn=PackedViews([each.drawn for each in made]),
        layout=layout,
    )
