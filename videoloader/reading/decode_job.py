"""Divide clips of one video into jobs, each decoded by one decoder in one go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoloader.indexing import VideoIndex
from videoloader.packets.decode_plan import DecodePlan, plan_frames, split_at_keyframes
from videoloader.padding import CONSTANT_FRAME
from videoloader.padding.pad import real_frames
from videoloader.reading.clip_slots import ClipSlots


@dataclass(frozen=True, eq=False)
class DecodeJob:
    """Frames of one video that one decoder makes in one go.

    Attributes:
        index: index of the video by which the job was planned.
        frames: int64[N], numbers of these frames, without constant padding.
        plan: packets to decode for them.
        parts: parts of the clips that want them.
        clip_of_part: number of the clip of each part.
    """

    index: VideoIndex
    frames: npt.NDArray[np.int64]
    plan: DecodePlan
    parts: list[ClipSlots]
    clip_of_part: list[int]


def whole_job(index: VideoIndex, clip: ClipSlots) -> DecodeJob:
    """Make one job of a clip.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    frames = real_frames(clip.frame_numbers)
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
    jobs = split_at_keyframes(index, real_frames(numbers)) or [numbers[:0]]
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
