"""The frame mode whose frames are listed by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from videoloader.errors import FrameRangeError
from videoloader.sampling.columns import Pad, integer_tuple, integers_of, pad_of
from videoloader.sampling.mode_bases import CheckedFields
from videoloader.sampling.sampled_video import SampledVideo


@dataclass(frozen=True)
class FrameList(CheckedFields):
    """One clip with exactly these frames, in any order, repeats allowed.

    Args:
        frames: sequence of int, or str. Frame numbers counted from the start of the video's range (negative ones from
            its end), or the name of a data set column in which each row lists its own, as a list or as text: ``0 4 8``
            or ``[0, 4, 8]``.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode for numbers outside the range.

    Raises:
        ConfigurationError: there are no frames, one is not an integer, or the padding mode is unknown.

    Examples:
        A video of 10 frames, ``FrameList([0, 5, -1])``; ``FrameList("frames")`` reads them from the row's column:

            frame   0 1 2 3 4 5 6 7 8 9
            clip 0  ■         ■       ■
    """

    frames: Sequence[int] | str
    _: KW_ONLY
    pad: Pad = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.frames, str):
            object.__setattr__(self, "frames", integer_tuple("frames", self.frames))
        super().__post_init__()

    @property
    def same_length(self) -> bool:
        """Whether all rows have the same frames."""
        return not isinstance(self.frames, str)

    def num_clips(self, video: SampledVideo) -> int:
        """Always 1."""
        return 1

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64[V]: 1 for each video."""
        return np.ones_like(frames)

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[len(frames)]. Nothing is random.

        Raises:
            FrameRangeError: a frame lies outside the range and ``pad="none"``.
            ConfigurationError: the row lists no frames.
        """
        listed = integers_of(video, self.frames) if isinstance(self.frames, str) else self.frames
        frames, size = np.array(listed, np.int64), video.stop - video.first
        outside = (frames < -size) | (frames >= size)
        if outside.any() and pad_of(self.pad, video) == "none":
            raise FrameRangeError(
                f"frame {frames[outside][0]} is outside the {size} frames to choose from", video.index.source
            )
        return video.first + np.where(frames < 0, frames + size, frames)
