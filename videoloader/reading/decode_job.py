"""What one decoder does in one go: which packets, and where the pictures of each clip go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import Geometry
from videoloader.indexing import VideoIndex
from videoloader.packets.decode_plan import DecodePlan, plan_frames, split_at_keyframes
from videoloader.padding import CONSTANT_FRAME

# A part of a video with fewer packets than this is not worth a decoder of its own.
LEAST_PACKETS = 64


@dataclass(frozen=True, eq=False)
class ClipSlots:
    """A clip, or a part of one, that is to be made.

    Attributes:
        frame_numbers: int64[T], in any order, repeats allowed; CONSTANT_FRAME gives one of the fill value.
        geometry: which part of the frames, and how large.
        slots: [N, 3, H, W], what the whole clip is written to, with its border, of any strides.
        positions: int64[T], which of the N slots each frame goes to.
    """

    frame_numbers: npt.NDArray[np.int64]
    geometry: Geometry
    slots: torch.Tensor
    positions: npt.NDArray[np.int64]

    def only(self, chosen: npt.NDArray[np.bool_]) -> ClipSlots:
        """The part of the clip with the chosen frames, bool[T]."""
        return replace(self, frame_numbers=self.frame_numbers[chosen], positions=self.positions[chosen])


def whole_clip(frame_numbers: npt.NDArray[np.int64], geometry: Geometry, slots: torch.Tensor) -> ClipSlots:
    """A clip that is made in one go, frame after frame into its slots, [T, 3, H, W]."""
    return ClipSlots(frame_numbers, geometry, slots, np.arange(len(frame_numbers)))


class ClipPart(NamedTuple):
    """Some frames of one of several clips: which clip, and where they go."""

    clip: int
    slots: ClipSlots


@dataclass(frozen=True, eq=False)
class DecodeJob:
    """Frames of one video that one decoder makes in one go.

    Attributes:
        index: the video's index, by which the job was planned.
        frames: int64[N], the numbers of these frames, without constant padding.
        plan: the packets to decode for them.
        parts: the parts of clips that want them.
    """

    index: VideoIndex
    frames: npt.NDArray[np.int64]
    plan: DecodePlan
    parts: list[ClipPart]

    @property
    def slots(self) -> list[ClipSlots]:
        """The slots of each part."""
        return [part.slots for part in self.parts]


def whole_job(index: VideoIndex, clip: ClipSlots) -> DecodeJob:
    """A clip as one job.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    frames = clip.frame_numbers[clip.frame_numbers != CONSTANT_FRAME]
    return DecodeJob(index, frames, plan_frames(index, frames), [ClipPart(0, clip)])


def split_clips(index: VideoIndex, clips: Sequence[ClipSlots], least_packets: int) -> Iterator[DecodeJob]:
    """Jobs for several decoders that make clips of one video. Each GOP is decoded once.

    Args:
        index: the video's index.
        clips: the clips, all of that video.
        least_packets: see ``split_at_keyframes``.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    numbers = np.concatenate([clip.frame_numbers for clip in clips])
    # Frames of padding need no packets: they go with the first job, which may be all there is.
    jobs = split_at_keyframes(index, numbers[numbers != CONSTANT_FRAME], least_packets) or [numbers[:0]]
    for job, frames in enumerate(jobs):
        parts = []
        for number, clip in enumerate(clips):
            wanted = np.isin(clip.frame_numbers, frames)
            if not job:
                wanted |= clip.frame_numbers == CONSTANT_FRAME
            if wanted.any():
                parts.append(ClipPart(number, clip.only(wanted)))
        if parts:
            yield DecodeJob(index, frames, plan_frames(index, frames), parts)
