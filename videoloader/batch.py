"""What a loader gives out: a batch of clips, and the account of what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batch_plan import BatchRow, PlannedClip
from videoloader.boxes import map_points, source_matrix, stack_matrices
from videoloader.errors import ConfigurationError
from videoloader.padding import CONSTANT_FRAME
from videoloader.transforms.coordinates import picture_box


@dataclass(frozen=True, eq=False)
class Batch:
    """B clips of T frames.

    With ``collate="list"`` T, and the frames' size, is each clip's own: ``frames``, ``frame_numbers``, ``timestamps``,
    ``mask`` and ``corrupt`` are then lists of B tensors or arrays, without the dimension B.

    Attributes:
        frames: [B, T, C, H, W], [B, C, T, H, W] or [B, T, H, W, C], of the loader's layout, dtype and device.
        labels: int64[B] on the same device; -1 where an entry has none.
        frame_numbers: int64[B, T]; -1 for a frame of constant padding.
        timestamps: float64[B, T], presentation times in seconds; NaN for a frame of constant padding.
        mask: bool[B, T], False where padding made the frame up.
        corrupt: bool[B, T], True where the decoder found the frame damaged.
        paths: of the B videos.
        clips: int64[B], number of each clip in the data set.
        columns: for each video the other columns of its entry.
        boxes: int64[B, 4], (top, left, height, width) of the picture in the frames, pixels: all of them but for what
            ``Letterbox``, ``Pad`` or ``PadToMultiple`` added.
        source_matrix: float64[B, 3, 3], where the frames' points lie in the video; float64[B, T, 3, 3] where a clip's
            frames are warped each in its own way. The point (x, y) lies at ``matrix @ (x, y, 1)``, divided by its third
            number. Points are counted from the corner of the top left pixel, whose centre is at (0.5, 0.5); the
            video's, in frames as a player shows them.
    """

    frames: Any
    labels: torch.Tensor
    frame_numbers: Any
    timestamps: Any
    mask: Any
    corrupt: Any
    paths: list[str]
    clips: npt.NDArray[np.int64]
    columns: list[Mapping[str, Any]]
    boxes: npt.NDArray[np.int64]
    source_matrix: npt.NDArray[np.float64]

    def to_source(
        self,
        points: torch.Tensor,
        rows: Sequence[int] | torch.Tensor | None = None,
        times: Sequence[int] | torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Where points or boxes of the frames, as a model predicts them, lie in the frames of their videos.

        Crops, resizes, flips, padding and warps are undone. What lies outside the picture comes out outside the crop.

        Args:
            points: on any device, [N, ..., 2] for points (x, y) or [N, ..., 4] for boxes (x1, y1, x2, y2), in pixels
                of the frames; see ``source_matrix``.
            rows: the clip that each of the N belongs to. Default: one of each, N = B.
            times: the frame of the clip that each of the N belongs to, 0 … T − 1. It matters only where warps differ
                from frame to frame; there, without it, points are [N, T, ...].

        Returns:
            The same shape in pixels of the videos, float32 or the wider type that they came in. Boxes have x1 ≤ x2 and
            y1 ≤ y2, flipped or not; of one that has been turned it is the smallest box around it.

        Raises:
            ConfigurationError: the points have another shape.

        Example:
            >>> boxes, rows = detect(batch.frames[:, 0])  # float32[N, 4], int64[N]  # doctest: +SKIP
            >>> boxes = batch.to_source(boxes, rows)  # doctest: +SKIP
        """
        matrix = self.source_matrix
        if rows is not None:
            matrix = matrix[_numbers(rows)]
        if times is not None:
            at = _numbers(times)
            if at.shape != matrix.shape[:1]:
                raise ConfigurationError(f"times are {list(at.shape)}, not [{len(matrix)}]")
            if matrix.ndim == 4:
                matrix = matrix[np.arange(len(at)), at]
        return map_points(points, matrix)


@dataclass(frozen=True)
class LoaderStats:
    """What the clips made so far have cost.

    Attributes:
        clips: clips made.
        frames: different frames in them.
        packets: packets decoded for them; ``packets / frames`` is the decode cost of a frame.
    """

    clips: int = 0
    frames: int = 0
    packets: int = 0

    def __add__(self, more: LoaderStats) -> LoaderStats:
        """Both accounts in one."""
        return LoaderStats(self.clips + more.clips, self.frames + more.frames, self.packets + more.packets)


def collate_rows(frames: Any, rows: Sequence[BatchRow], join: Callable[[list[npt.NDArray[Any]]], Any]) -> Batch:
    """A batch of rows whose frames are in place already.

    Args:
        frames: of the batch.
        rows: of the batch, at least one.
        join: makes one of the rows' arrays of [T]: ``numpy.stack`` or ``list``.
    """
    clips = [row.clip for row in rows]
    labels = [-1 if clip.video.entry.label is None else clip.video.entry.label for clip in clips]
    return Batch(
        frames,
        torch.tensor(labels, dtype=torch.int64).to(rows[0].frames.device, non_blocking=True),
        join([clip.frame_numbers for clip in clips]),
        join([_timestamps(clip) for clip in clips]),
        join([clip.mask for clip in clips]),
        join([row.corrupt for row in rows]),
        [clip.video.entry.path for clip in clips],
        np.array([clip.number for clip in clips], np.int64),
        [clip.video.entry.columns for clip in clips],
        np.array([picture_box(clip.geometry) for clip in clips], np.int64),
        stack_matrices([source_matrix(clip.geometry) for clip in clips]),
    )


def _timestamps(clip: PlannedClip) -> npt.NDArray[np.float64]:
    constant = clip.frame_numbers == CONSTANT_FRAME
    return np.where(constant, np.nan, clip.video.index.timestamps[np.where(constant, 0, clip.frame_numbers)])


def _numbers(given: Sequence[int] | torch.Tensor) -> npt.NDArray[np.int64]:
    return np.asarray(torch.as_tensor(given).cpu(), np.int64)
