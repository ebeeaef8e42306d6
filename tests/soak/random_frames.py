"""A frame mode for soak runs: every kind of clip that a user might ask for, mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoloader.sampling.sampled_video import SampledVideo


@dataclass(frozen=True)
class RandomFrames:
    """Clips of ``length`` frames, each of another kind: windows, backwards, lists near or far, single frames.

    Windows may reach beyond the video's end, where padding stands in.
    """

    length: int
    clips: int = 1
    pad: str = "reflect_101"

    def num_clips(self, video: SampledVideo) -> int:
        return self.clips

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        count = video.stop - video.first
        start = int(rng.integers(count))
        window = start + np.arange(self.length) * int(rng.integers(1, 6))
        near = np.minimum(start + rng.integers(0, 40, self.length), count - 1)
        kinds = (
            window,
            window,
            window[::-1],
            np.sort(near),
            near,
            np.sort(rng.integers(0, count, self.length)),
            rng.integers(0, count, self.length),
            np.full(self.length, start),
        )
        return video.first + kinds[int(rng.integers(len(kinds)))].astype(np.int64)
