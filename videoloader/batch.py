"""What a loader gives out: a batch of clips, and the account of what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.clip_table import EntryFrames
from videoloader.device import allocate
from videoloader.padding import CONSTANT_FRAME


@dataclass(frozen=True, eq=False)
class Batch:
    """B clips of T frames.

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
    """

    frames: torch.Tensor
    labels: torch.Tensor
    frame_numbers: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.float64]
    mask: npt.NDArray[np.bool_]
    corrupt: npt.NDArray[np.bool_]
    paths: list[str]
    clips: npt.NDArray[np.int64]
    columns: list[Mapping[str, Any]]


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


def allocate_frames(
    clips: int, shape: tuple[int, int, int], layout: str, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Memory for a batch: [B, T, 3, H, W], or with another order of the last four dimensions; see ``device.allocate``.

    Args:
        clips: B.
        shape: (T, H, W).
        layout: the order: ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
    """
    sizes = {"C": 3, **dict(zip("THW", shape, strict=True))}
    return allocate((clips, *(sizes[axis] for axis in layout)), dtype, device)


def clip_slots(clip: torch.Tensor, layout: str) -> Sequence[torch.Tensor]:
    """The T frames of one clip of a batch as [3, H, W], whatever its layout: views."""
    return clip.permute([layout.index(axis) for axis in "TCHW"]).unbind(0)


def collate(
    frames: torch.Tensor,
    videos: Sequence[EntryFrames],
    clips: Sequence[int],
    frame_numbers: Sequence[npt.NDArray[np.int64]],
    masks: Sequence[npt.NDArray[np.bool_]],
    corrupt: Sequence[npt.NDArray[np.bool_]],
) -> Batch:
    """A batch of clips whose frames are in place already."""
    numbers = np.stack(frame_numbers)
    constant = numbers == CONSTANT_FRAME
    timestamps = np.stack(
        [video.index.timestamps[np.where(constant[row], 0, numbers[row])] for row, video in enumerate(videos)]
    )
    labels = [-1 if video.entry.label is None else video.entry.label for video in videos]
    return Batch(
        frames,
        torch.tensor(labels, dtype=torch.int64).to(frames.device, non_blocking=True),
        numbers,
        np.where(constant, np.nan, timestamps),
        np.stack(masks),
        np.stack(corrupt),
        [video.entry.path for video in videos],
        np.array(clips, np.int64),
        [video.entry.columns for video in videos],
    )
