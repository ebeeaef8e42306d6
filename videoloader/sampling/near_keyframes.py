"""A frame mode that wraps another one and draws random clips that are cheap to decode."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check, check_integer, check_positive
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import plan_frames
from videoloader.sampling.columns import PadColumn
from videoloader.sampling.mode import CountsByFrames, CountsByLength, FrameMode, KnownFrames, clip_frames, clip_rng
from videoloader.sampling.roles import Roles, roles_of
from videoloader.sampling.sampled_video import AllFrames, SampledVideo

_DRAWS = 64


class DecodeCost(NamedTuple):
    """The average number of packets decoded for each frame of a clip.

    Attributes:
        plain: float. The number for the frame mode itself.
        near: float. The number for the same mode in ``NearKeyframes``.
    """

    plain: float
    near: float

    @property
    def saved(self) -> float:
        """The share of the packets that is saved, 0 to 1."""
        return 1 - self.near / self.plain if self.plain else 0.0


@dataclass(frozen=True)
class NearKeyframes:
    """Clips of a random mode, redrawn until they begin soon after a keyframe.

    A clip in the middle of a GOP costs all packets from the keyframe before it. So a clip is redrawn, up to 64 times,
    until at most ``within`` packets must be decoded before its first frame. If no draw is that cheap, the cheapest is
    used.

    This biases sampling: frames early in a GOP are seen more often, and frames late in a long GOP are rarely the first
    of a clip (they are seen only in clips that reach that far). Videos with long GOPs are sampled near their few
    keyframes, so their clips vary less from epoch to epoch. Each video is sampled as often as before, and videos whose
    GOPs have at most ``within`` packets are sampled as without this mode. ``decode_cost`` measures the saving.

    Args:
        mode: frame mode. The mode that draws the clips. It should be random: otherwise all draws are the same.
        within: int. The most packets that may precede the clip's first frame.

    Raises:
        ConfigurationError: ``within`` is negative, or ``mode`` is not a frame mode.

    Examples:
        GOPs of 8 frames, ``NearKeyframes(RandomWindow(3), within=2)``; ^ marks where clips begin:

            frame   K · · · · · · · K · · · · · · · K
                    ^ ^ ^           ^ ^ ^
    """

    mode: FrameMode
    _: KW_ONLY
    within: int

    def __post_init__(self) -> None:
        check_integer("within", self.within, 0)
        is_mode = isinstance(self.mode, FrameMode) and not isinstance(self.mode, type)
        check("mode", self.mode, is_mode, "a frame mode", "; RandomWindow(16) is one")

    @property
    def pad(self) -> str | PadColumn:
        """The padding mode of ``mode``."""
        return self.mode.pad

    @property
    def roles(self) -> Roles | None:
        """The roles of ``mode``."""
        return roles_of(self.mode)

    @property
    def in_seconds(self) -> bool:
        """Whether ``mode`` chooses frames by their times."""
        return getattr(self.mode, "in_seconds", False)

    def num_clips(self, video: SampledVideo) -> int:
        """The number of clips that ``mode`` makes."""
        return self.mode.num_clips(video)

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of videos with these numbers of frames; None where ``mode`` cannot tell."""
        return self.mode.clips_by_length(frames) if isinstance(self.mode, CountsByLength) else None

    def clips_by_frames(self, known: KnownFrames) -> npt.NDArray[np.int64] | None:
        """int64[V]: ``num_clips`` of rows from these facts about them, as ``mode`` counts them."""
        return self.mode.clips_by_frames(known) if isinstance(self.mode, CountsByFrames) else None

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T]: the first draw that is cheap enough, or the cheapest."""
        best = self.mode.frame_numbers(video, clip, rng)
        least = _packets_before(video, best)
        for _ in range(_DRAWS - 1):
            if least <= self.within:
                break
            drawn = self.mode.frame_numbers(video, clip, rng)
            before = _packets_before(video, drawn)
            if before < least:
                best, least = drawn, before
        return best

    @tells_of_arguments
    def decode_cost(self, index: VideoIndex, *, draws: int = 100, seed: int = 0) -> DecodeCost:
        """Measure what clips of a video cost with and without this mode, from the video's index alone.

        Args:
            index: VideoIndex. The index of the video.
            draws: int, default 100. The number of clips to average over.
            seed: int, default 0. The seed for drawing them.

        Raises:
            ConfigurationError: ``draws`` is not a positive integer.
            FrameRangeError: the mode makes no clip of the video.

        Examples:
            >>> mode = NearKeyframes(RandomWindow(8), within=4)
            >>> cost = mode.decode_cost(video.index)
            >>> f"{cost.plain:.1f} → {cost.near:.1f} packets a frame"
            '2.5 → 1.4 packets a frame'
        """
        check_positive(draws=draws)
        return DecodeCost(*(_packets_a_frame(mode, index, draws, seed) for mode in (self.mode, self)))


def _packets_before(video: SampledVideo, frames: npt.NDArray[np.int64]) -> int:
    """Packets to decode before the earliest frame of a clip."""
    real = frames[(frames >= video.first) & (frames < video.stop)]
    if not len(real):
        return 0
    earliest = real.min()
    return int(video.index.frame_packet[earliest] - video.index.start_packet(earliest))


def _packets_a_frame(mode: FrameMode, index: VideoIndex, draws: int, seed: int) -> float:
    video = AllFrames(index)
    clips = max(mode.num_clips(video), 1)
    packets = frames = 0
    for draw in range(draws):
        numbers, mask = clip_frames(mode, video, draw % clips, clip_rng(seed, 0, draw))
        plan = plan_frames(index, numbers[mask])
        packets, frames = packets + plan.packets, frames + plan.frames_wanted
    return packets / max(frames, 1)
