"""Counts clips from numbers of frames alone, for one video or a million at once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from videoloader.padding import check_mode
from videoloader.sampling.checked_fields import CheckedFields
from videoloader.sampling.columns import Pad, PadColumn, pad_of
from videoloader.sampling.sampled_video import SampledVideo


class CountedByLength(CheckedFields, ABC):
    """A mode whose number of clips follows from a video's number of frames and the padding mode."""

    pad: Pad

    def num_clips(self, video: SampledVideo) -> int:
        """The number of clips in the video."""
        return int(self._clips(np.array(video.stop - video.first), pad_of(self.pad, video)))

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with these numbers of frames; None where padding depends on the video."""
        return None if isinstance(self.pad, PadColumn) else self._clips(frames, check_mode(self.pad))

    @abstractmethod
    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        """int64, the shape of ``frames``: the number of clips in videos with so many frames under a padding mode."""


class OneClip(CheckedFields):
    """A mode that makes one clip of every video that has a frame."""

    def num_clips(self, video: SampledVideo) -> int:
        """1."""
        return int(video.stop > video.first)

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64[V]: ``num_clips`` of videos with these numbers of frames."""
        return (frames > 0).astype(np.int64)
