"""Frame modes that take all frames of a video, or all its keyframes; their clips differ in length."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from videoloader.sampling.columns import Pad, pad_of
from videoloader.sampling.mode import KnownFrames
from videoloader.sampling.mode_bases import CheckedFields, OneClip
from videoloader.sampling.sampled_video import SampledVideo


@dataclass(frozen=True)
class WholeVideo(OneClip):
    """One clip with every ``stride``-th frame of the video, starting with the first.

    Args:
        stride: int, default 1. The distance between neighbouring frames of the clip, in frames.
        max_frames: int, default None. The most frames in a clip; later ones are left out.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode. With padding and ``max_frames``, all clips have
            that many frames: shorter videos are padded. With ``"none"`` lengths differ.

    Raises:
        ConfigurationError: an argument is not positive, or the padding mode is unknown.

    Examples:
        Videos of 8 and 4 frames, ``WholeVideo(stride=2, max_frames=3)``:

            frame   0 1 2 3 4 5 6 7         0 1 2 3
            clip 0  ■ · ■ · ■               ■ · ■
    """

    _: KW_ONLY
    stride: int = 1
    max_frames: int | None = None
    pad: Pad = "none"

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T], at most ``max_frames``. Nothing is random."""
        length = -(-(video.stop - video.first) // self.stride)
        if self.max_frames is not None:
            length = self.max_frames if pad_of(self.pad, video) != "none" else min(length, self.max_frames)
        return video.first + self.stride * np.arange(length, dtype=np.int64)


@dataclass(frozen=True)
class Keyframes(CheckedFields):
    """One clip with the keyframes of the video: those that decode without any other frame, and so at the least cost.

    The encoder chooses them: usually one every 1 to 10 seconds, often at the start of a scene.

    Args:
        limit: int, default None. The most frames in a clip; later keyframes are left out.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode. With padding and ``limit``, all clips have that
            many frames: missing ones are padded as if they came after the video's last frame. With ``"none"`` lengths
            differ.

    Raises:
        ConfigurationError: the limit is not positive, or the padding mode is unknown.

    Examples:
        A video of 10 frames in GOPs of four, ``Keyframes()``:

            frame   K · · · K · · · K ·
            clip 0  ■       ■       ■
    """

    limit: int | None = None
    _: KW_ONLY
    pad: Pad = "none"

    def num_clips(self, video: SampledVideo) -> int:
        """1, or 0 where the range holds no keyframe."""
        return int(len(self._keyframes(video)) > 0)

    def clips_by_frames(self, known: KnownFrames) -> npt.NDArray[np.int64]:
        """int64[V]: ``num_clips`` of rows from these facts about them; -1 where a keyframe may be in the range."""
        key = known.first_key_frame
        has = ((known.first <= key) & (key < known.stop)) | (known.stop - known.first > known.frames_without_key)
        return np.where(has, 1, np.where(key >= known.stop, 0, -1))

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T], at most ``limit``. Nothing is random."""
        frames = self._keyframes(video)[: self.limit]
        if self.limit is None or pad_of(self.pad, video) == "none":
            return frames
        return np.append(frames, video.stop + np.arange(self.limit - len(frames)))

    def _keyframes(self, video: SampledVideo) -> npt.NDArray[np.int64]:
        index = video.index
        return video.first + np.flatnonzero(index.packet_key[index.frame_packet[video.first : video.stop]])
