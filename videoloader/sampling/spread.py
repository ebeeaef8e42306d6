"""Frame modes that make one clip of frames spread over the whole video."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from videoloader.sampling.columns import Pad
from videoloader.sampling.mode_bases import CountedByLength, OneClip
from videoloader.sampling.sampled_video import SampledVideo


@dataclass(frozen=True)
class Segments(CountedByLength):
    """One clip of ``segments * frames_per_segment`` frames: consecutive frames from each equal part of the video.

    This is the sampling of temporal segment networks (Wang et al., "Temporal Segment Networks", ECCV 2016). N frames
    are cut into equal parts without rounding: part k spans ``k * N / segments`` to ``(k + 1) * N / segments``, where
    frame n spans n to n + 1. Without jitter the frames of a part lie around its centre; a single frame is the one at
    the centre. With jitter they lie anywhere in the part, all positions equally likely. Where a part is too short for
    its frames, they lie around its centre in both cases and reach into neighbouring parts, but not beyond the video.
    Only a video with fewer than ``frames_per_segment`` frames is padded, or has no clips with ``pad="none"``.

    Args:
        segments: int. The number of parts.
        frames_per_segment: int, default 1. The number of consecutive frames from each part.
        jitter: bool, default False. Whether to draw positions at random, for training.
        pad: str or ``PadColumn``, default ``"edge"``. The padding mode.

    Raises:
        ConfigurationError: a number is not positive, or the padding mode is unknown.

    Examples:
        A video of 10 frames, ``Segments(3)``:

            frame   0  1  2 ╎3  4  5  6╎ 7  8  9      parts of 3⅓ frames, centres 1⅔, 5, 8⅓
            clip 0     ■    ╎      ■   ╎    ■
    """

    segments: int
    _: KW_ONLY
    frames_per_segment: int = 1
    jitter: bool = False
    pad: Pad = "edge"

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[segments * frames_per_segment], in video order; drawn with ``rng`` if ``jitter`` is set."""
        frames, parts, each = video.stop - video.first, self.segments, self.frames_per_segment
        # All values are in units of 1 / (2 * parts) of a frame, so that only the result is rounded.
        room = 2 * (frames - (each - 1) * parts)
        centred = not self.jitter or room <= 0
        place = room // 2 if centred else 2 * rng.integers(room // 2, size=parts)
        starts = (2 * frames * np.arange(parts, dtype=np.int64) + place) // (2 * parts)
        starts = starts.clip(0, max(frames - each, 0))
        return (video.first + starts[:, None] + np.arange(each)).reshape(-1)

    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        return np.int64(1) * (frames >= (self.frames_per_segment if pad == "none" else 1))


@dataclass(frozen=True)
class UniformFrames(OneClip):
    """One clip of ``count`` frames from the first to the last, evenly spread: ``linspace(first, last, count)``.

    Positions are rounded to the nearest frame, halves up. In a video with fewer frames some repeat; nothing is padded.
    With ``count=1`` the clip is the first frame.

    Args:
        count: int. The number of frames in the clip.
        pad: str or ``PadColumn``, default ``"none"``. It has no effect, but every frame mode has it.

    Raises:
        ConfigurationError: the count is not positive, or the padding mode is unknown.

    Examples:
        A video of 10 frames, ``UniformFrames(3)``: 0, 4.5 (rounded: 5) and 9:

            frame   0 1 2 3 4 5 6 7 8 9
            clip 0  ■         ■       ■
    """

    same_length: ClassVar[bool] = True

    count: int
    _: KW_ONLY
    pad: Pad = "none"

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[count]. Nothing is random."""
        last, gaps = video.stop - video.first - 1, max(self.count - 1, 1)
        return video.first + (2 * last * np.arange(self.count, dtype=np.int64) + gaps) // (2 * gaps)
