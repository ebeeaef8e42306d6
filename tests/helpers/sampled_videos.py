"""Synthetic videos as frame modes see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from synthetic_index import make_index

from videoloader.sampling.mode import FrameMode, clip_frames, clip_rng
from videoloader.sampling.sampled_video import SampledVideo


def video(
    size: int,
    first: int = 0,
    *,
    after: int = 0,
    pts: Sequence[int] | None = None,
    time_base: Fraction = Fraction(1, 25),
    keys: set[int] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> SampledVideo:
    """A range of ``size`` frames of a video, with ``first`` frames before it and ``after`` frames after it.

    ``pts`` and ``keys`` belong to the whole video; by default frames are one unit of the time base apart, and all are
    keyframes.
    """
    count = first + size + after
    index = make_index(
        list(range(count)) if pts is None else list(pts),
        set(range(count)) if keys is None else keys,
        time_base=time_base,
    )
    object.__setattr__(index, "source", "talk.mp4")
    return SimpleNamespace(first=first, stop=first + size, index=index, columns=columns or {})


def all_clips(mode: FrameMode, of: SampledVideo, seed: int = 0) -> list[list[int]]:
    return [clip_frames(mode, of, clip, clip_rng(seed, 0, clip))[0].tolist() for clip in range(mode.num_clips(of))]


def only_clip(mode: FrameMode, of: SampledVideo, seed: int = 0) -> list[int]:
    (clip,) = all_clips(mode, of, seed)
    return clip


def mask_of(mode: FrameMode, of: SampledVideo, clip: int = 0) -> list[bool]:
    return clip_frames(mode, of, clip, clip_rng(0, 0, clip))[1].tolist()


def counts_agree(mode: Any, sizes: Sequence[int]) -> bool:
    """Whether counting clips at once agrees with counting them one by one."""
    counted = mode.clips_by_length(np.array(sizes, np.int64))
    return counted.tolist() == [mode.num_clips(video(size)) for size in sizes]
