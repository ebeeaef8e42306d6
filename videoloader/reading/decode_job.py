"""Divide clips of one video into jobs, each decoded by one decoder in one go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Geometry
from videoloader.indexing import VideoIndex
from videoloader.packets.decode_plan import DecodePlan, plan_frames, split_at_keyframes
from videoloader.padding import CONSTANT_FRAME


@dataclass(frozen=True, eq=False)
class ClipSlots:
    """A clip to make, or a part of one, with the memory for it.

    Attributes:
        frame_numbers: int64[T], in any order, repeats allowed; CONSTANT_FRAME stands for a frame of the fill value.
        geometry: the part of each frame that is wanted, and its output size.
        slots: [N, 3, H, W], any strides: memory of the whole clip, including its border.
        corrupt: bool[N], which frames of the whole clip are damaged or refer to damage; written when they are made.
            Always False where NVDEC decodes, since PyNvVideoCodec does not report which pictures the driver concealed.
            If NVDEC's parser refuses data, or gives too many or too few pictures or other sizes, the CPU decodes the
            whole clip.
        positions: int64[T], which of the N slots each frame goes to.
    """

    frame_numbers: npt.NDArray[np.int64]
    geometry: Geometry
    slots: torch.Tensor
    corrupt: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]

    @property
    def damaged(self) -> npt.NDArray[np.int64]:
        """Numbers of the frames that are corrupt."""
        return self.frame_numbers[self.corrupt[self.positions]]

    def only(self, chosen: npt.NDArray[np.bool_]) -> ClipSlots:
        """Return the part of the clip with the chosen frames, bool[T]."""
        return replace(self, frame_numbers=self.frame_numbers[chosen], positions=self.positions[chosen])


def whole_clip(frame_numbers: npt.NDArray[np.int64], geometry: Geometry, slots: torch.Tensor) -> ClipSlots:
    """Return a clip made in one go, frame after frame into its slots, [T, 3, H, W]."""
    length = len(frame_numbers)
    return ClipSlots(frame_numbers, geometry, slots, np.zeros(length, np.bool_), np.arange(length))


def frame_times(index: VideoIndex, frame_numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the presentation times of a clip's frames in seconds, float64[T]; NaN for constant padding."""
    constant = frame_numbers == CONSTANT_FRAME
    return np.where(constant, np.nan, index.timestamps[np.where(constant, 0, frame_numbers)])


@dataclass(frozen=True, eq=False)
class DecodeJob:
    """Frames of one video that one decoder makes in one go.

    Attributes:
        index: index of the video by which the job was planned.
        frames: int64[N], numbers of these frames, without constant padding.
        plan: packets to decode for them.
        parts: parts of the clips that want them.
        clips: number of the clip of each part.
    """

    index: VideoIndex
    frames: npt.NDArray[np.int64]
    plan: DecodePlan
    parts: list[ClipSlots]
    clips: list[int]


def whole_job(index: VideoIndex, clip: ClipSlots) -> DecodeJob:
    """Make one job of a clip.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    frames = clip.frame_numbers[clip.frame_numbers != CONSTANT_FRAME]
    return DecodeJob(index, frames, plan_frames(index, frames), [clip], [0])


def split_clips(index: VideoIndex, clips: Sequence[ClipSlots]) -> Iterator[DecodeJob]:
    """Split clips of one video into jobs for several decoders, so that each GOP is decoded once.

    Args:
        index: the video's index.
        clips: the clips, all of that video.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    numbers = np.concatenate([clip.frame_numbers for clip in clips])
    # Frames of padding need no packets. They go with the first job, which may be the only one.
    jobs = split_at_keyframes(index, numbers[numbers != CONSTANT_FRAME]) or [numbers[:0]]
    for job, frames in enumerate(jobs):
        parts, owners = [], []
        for number, clip in enumerate(clips):
            wanted = np.isin(clip.frame_numbers, frames)
            if not job:
                wanted |= clip.frame_numbers == CONSTANT_FRAME
            if wanted.any():
                parts.append(clip.only(wanted))
                owners.append(number)
        if parts:
            yield DecodeJob(index, frames, plan_frames(index, frames), parts, owners)
