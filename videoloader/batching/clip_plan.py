"""What is decoded for one batch: each clip by itself, but a GOP that several clips need only once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from videoloader.indexing import VideoIndex
from videoloader.order.clip_table import EntryFrames
from videoloader.packets.decode_plan import gops_in_common, plan_frames
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.frame_sink import ClipPart, ClipSlots, split_clips, whole_clip
from videoloader.sampling import FrameMode, clip_frames
from videoloader.transforms import DrawnView, TransformPlan

# Below that a part of what clips have in common is not worth a decoder of its own.
_LEAST_PACKETS = 64


@dataclass(frozen=True, eq=False)
class PlannedClip:
    """A clip of the table with all that was drawn for it.

    Attributes:
        number: in the data set.
        video: it is of.
        frame_numbers, mask: int64[T] and bool[T]; see ``clip_frames``.
        drawn: for its pixels.
        view: number of this view of the clip.
    """

    number: int
    video: EntryFrames
    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    drawn: DrawnView
    view: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """(frames, height, width) as decoded."""
        return len(self.frame_numbers), *self.drawn.geometry.output_size


def plan_views(
    number: int,
    video: EntryFrames,
    clip: int,
    mode: FrameMode,
    transforms: TransformPlan,
    rngs: Sequence[np.random.Generator],
) -> list[PlannedClip]:
    """What the views of a clip consist of, from the index alone.

    Args:
        number: that it goes by.
        video: it is of.
        clip: its number in the video.
        mode: chooses its frames.
        transforms: of all its frames.
        rngs: from ``clip_rng``, one for each time that its frames are to be transformed; the first chooses them, too.

    Raises:
        FrameRangeError: the video has no such clip.
        ConfigurationError: the mode or a transform cannot be applied to the video.
    """
    frame_numbers, mask = clip_frames(mode, video, clip, rngs[0])
    length, entry, display_size = len(frame_numbers), video.entry, video.index.stream.display_size
    if transforms.time and length:
        shown = transforms.positions(rngs[0], length)
        frame_numbers, mask = frame_numbers[shown], mask[shown]
    views = [
        view
        for rng in rngs
        for view in transforms.draw(display_size, length, rng, label=entry.label, columns=entry.columns)
    ]
    return [PlannedClip(number, video, frame_numbers, mask, view, at) for at, view in enumerate(views)]


@dataclass(eq=False)
class BatchRow:
    """A row of a batch in the making.

    Attributes:
        clip: what it shows; another clip may replace one that does not decode.
        frames: its part of the batch, in the loader's layout.
        slots: the same as [T, 3, H, W].
        corrupt: bool[T], see ``Batch``.
        left_out: whether the clip could not be made and nothing replaces it.
    """

    clip: PlannedClip
    frames: torch.Tensor
    slots: torch.Tensor
    corrupt: npt.NDArray[np.bool_] = field(init=False)
    left_out: bool = False

    def __post_init__(self) -> None:
        self.corrupt = np.zeros(len(self.slots), np.bool_)

    def show(self, clip: PlannedClip, frames: torch.Tensor, slots: torch.Tensor) -> None:
        """Show another clip, there."""
        self.clip, self.frames, self.slots = clip, frames, slots
        self.corrupt = np.zeros(len(slots), np.bool_)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(frames, height, width)."""
        length, _, height, width = self.slots.shape
        return length, height, width

    def clip_slots(self) -> ClipSlots:
        """What a decoder is to make of the row."""
        return whole_clip(self.clip.frame_numbers, self.clip.drawn.geometry, self.slots)


@dataclass(frozen=True, eq=False)
class DecodeJob:
    """What one decoder does in one go for rows of a batch that show the same video.

    Attributes:
        index: of the video.
        packets: that are decoded, at most.
        rows: that get frames of it.
        parts: for each of these rows, which frames.
    """

    index: VideoIndex
    packets: int
    rows: list[BatchRow]
    parts: list[ClipPart]


def decode_jobs(rows: Sequence[BatchRow]) -> Iterator[DecodeJob]:
    """The decoding jobs of a batch.

    A clip is one job. Clips that need a GOP in common are one, too, or several where there are many GOPs to
    decode, so that more decoders can take part.
    """
    by_path: dict[str, list[BatchRow]] = {}
    for row in rows:
        by_path.setdefault(row.clip.video.entry.path, []).append(row)
    for of_one_video in by_path.values():
        index = of_one_video[0].clip.video.index
        for group in _groups(index, of_one_video):
            if len(group) == 1:
                yield _job_of_one(index, group[0])
                continue
            for frames, parts in split_clips(index, [row.clip_slots() for row in group], _LEAST_PACKETS):
                packets = plan_frames(index, frames).packets
                yield DecodeJob(index, packets, [group[part.clip] for part in parts], parts)


def _job_of_one(index: VideoIndex, row: BatchRow) -> DecodeJob:
    numbers = row.clip.frame_numbers
    packets = plan_frames(index, numbers[numbers != CONSTANT_FRAME]).packets
    return DecodeJob(index, packets, [row], [ClipPart(0, row.clip_slots())])


def _groups(index: VideoIndex, rows: list[BatchRow]) -> list[list[BatchRow]]:
    if len(rows) == 1:
        return [rows]
    numbers = [row.clip.frame_numbers for row in rows]
    groups = gops_in_common(index, [frames[frames != CONSTANT_FRAME] for frames in numbers])
    return [[rows[clip] for clip in group] for group in groups]
