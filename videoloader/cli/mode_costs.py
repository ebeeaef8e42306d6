"""Computes what clips of common frame modes cost to decode."""

from __future__ import annotations

from typing import Any

import numpy as np

from videoloader.cli.expressions import mode_from
from videoloader.indexing import VideoIndex
from videoloader.packets.decode_plan import plan_frames
from videoloader.padding import CONSTANT_FRAME
from videoloader.permutation import permute
from videoloader.sampling import AllFrames, clip_frames, clip_rng

USUAL_MODES = (
    "RandomWindow(1)",
    "RandomWindow(16)",
    "RandomWindow(16, stride=4)",
    "Segments(8)",
    "Triplets()",
    "EveryWindow(16)",
    "Keyframes()",
)
# The most clips to plan, or the draws of a mode that makes a single clip.
_CLIPS = 16


def mode_cost(index: VideoIndex, mode: str) -> dict[str, Any]:
    """The cost of a mode's clips of one video, computed from some of them, always the same, for JSON.

    Returns:
        ``mode`` as written in Python; ``clips``, the number that the mode makes of the video; ``packets_per_clip`` and
        ``packets_per_frame``, averages over some of the clips, 0 without clips. These are upper bounds: reading the
        packets may show that more of them can be skipped.
    """
    video, made = AllFrames(index), mode_from(mode)
    count = made.num_clips(video)
    packets = frames = 0
    draws = permute(np.arange(min(count, _CLIPS)), count, 0, 0).tolist() if count > 1 else [0] * count * _CLIPS
    for draw, clip in enumerate(draws):
        wanted, _ = clip_frames(made, video, clip, clip_rng(draw, 0, clip))
        plan = plan_frames(index, wanted[wanted != CONSTANT_FRAME])
        packets, frames = packets + plan.packets, frames + plan.frames_wanted
    averages = {"packets_per_clip": packets / max(len(draws), 1), "packets_per_frame": packets / max(frames, 1)}
    return {"mode": mode, "clips": count, **averages}
