"""Frame modes whose clips are windows: frames at equal distances."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from videoloader.errors.checks import both_ends, check_probability, integer_range
from videoloader.sampling.columns import Pad
from videoloader.sampling.mode_bases import CountedByLength
from videoloader.sampling.placements import draw_gap, even_start
from videoloader.sampling.sampled_video import SampledVideo


@dataclass(frozen=True)
class EveryWindow(CountedByLength):
    """All windows of ``length`` frames, ``stride`` apart, that start every ``step`` frames.

    With padding, windows at the end of the video are made if they hold at least one real frame; without padding, only
    windows that fit are made.

    Args:
        length: int. The number of frames in a clip.
        stride: int, default 1. The distance between neighbouring frames of a clip, frames.
        step: int, default ``length * stride``, so that windows do not overlap. The distance between the starts of
            neighbouring clips, frames.
        pad: str or ``PadColumn``, which lists the aliases, default ``"none"``. The padding mode.

    Raises:
        ConfigurationError: an argument is not positive, or the padding mode is unknown.

    Examples:
        A video of 10 frames, ``EveryWindow(3, stride=2, step=1)``:

            frame   0 1 2 3 4 5 6 7 8 9
            clip 0  ■ · ■ · ■
            clip 1    ■ · ■ · ■
              …
            clip 5            ■ · ■ · ■
    """

    length: int
    _: KW_ONLY
    stride: int = 1
    step: int | None = None
    pad: Pad = "none"

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: the window that starts ``clip * step`` frames into the range. Nothing is random."""
        return _window(video.first + clip * self._step, self.length, self.stride)

    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        reach = _span(self.length, self.stride) if pad == "none" else 1
        return np.maximum((frames - reach) // self._step + 1, 0)

    @property
    def _step(self) -> int:
        return self.length * self.stride if self.step is None else self.step


@dataclass(frozen=True)
class RandomWindow(CountedByLength):
    """Windows of ``length`` frames, ``stride`` apart, each at a start drawn uniformly from those that fit.

    In a video that is too short for one window, windows start with its first frame and are padded; with ``pad="none"``
    it has no clips.

    Args:
        length: int. The number of frames in a clip.
        stride: int or (int, int), default 1. The distance between neighbouring frames of a clip, frames. With (least,
            largest), each clip draws its own stride from those with which a window fits (the least where none fits).
        clips: int, default 1. The number of windows drawn from each video, independently of each other.
        reverse: float, default 0.0. The probability that a clip runs backwards.
        pad: str or ``PadColumn``, which lists the aliases, default ``"edge"``. The padding mode.

    Raises:
        ConfigurationError: an argument is not positive, or the padding mode is unknown.

    Examples:
        The usual 16×4 clip of action recognition is ``RandomWindow(16, stride=4)``. One draw of ``RandomWindow(3,
        stride=(1, 5))`` from 14 frames: stride 4 of 1 … 5, start 3 of 0 … 5:

            frame   0  1  2  3  4  5  6  7  8  9 10 11 12 13
            clip 0           ■  ·  ·  ·  ■  ·  ·  ·  ■
    """

    length: int
    _: KW_ONLY
    stride: int | tuple[int, int] = 1
    clips: int = 1
    reverse: float = 0.0
    pad: Pad = "edge"

    def __post_init__(self) -> None:
        super().__post_init__()
        strides = integer_range("stride", self.stride)
        if isinstance(self.stride, tuple | list):
            object.__setattr__(self, "stride", strides)
        check_probability("reverse", self.reverse)

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: a window drawn with ``rng``."""
        frames = video.stop - video.first
        stride = draw_gap(*both_ends(self.stride), self.length - 1, frames, rng)
        starts = frames - _span(self.length, stride) + 1
        start = int(rng.integers(starts)) if starts > 1 else 0
        window = _window(video.first + start, self.length, stride)
        return window[::-1] if self.reverse and rng.random() < self.reverse else window

    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        return np.int64(self.clips) * (
            frames >= (_span(self.length, both_ends(self.stride)[0]) if pad == "none" else 1)
        )


@dataclass(frozen=True)
class EvenWindows(CountedByLength):
    """``clips`` windows of ``length`` frames, ``stride`` apart, spread evenly: the usual test views.

    The first window begins with the first frame and the last ends with the last one; starts in between are rounded to
    the nearest frame, halves up. A single window is centred, halves down. In a video that is too short for one window,
    all begin with its first frame and are padded; with ``pad="none"`` it has no clips.

    Args:
        length: int. The number of frames in a clip.
        stride: int, default 1. The distance between neighbouring frames of a clip, frames.
        clips: int, default 10. The number of windows from each video.
        pad: str or ``PadColumn``, which lists the aliases, default ``"edge"``. The padding mode.

    Raises:
        ConfigurationError: an argument is not positive, or the padding mode is unknown.

    Examples:
        A video of 10 frames, ``EvenWindows(3, clips=3)``: starts 0, 3.5 (rounded: 4) and 7:

            frame   0 1 2 3 4 5 6 7 8 9
            clip 0  ■ ■ ■
            clip 1          ■ ■ ■
            clip 2                ■ ■ ■
    """

    length: int
    _: KW_ONLY
    stride: int = 1
    clips: int = 10
    pad: Pad = "edge"

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: window number ``clip``. Nothing is random."""
        last = max(video.stop - video.first - _span(self.length, self.stride), 0)
        return _window(video.first + even_start(clip, self.clips, last), self.length, self.stride)

    def _clips(self, frames: npt.NDArray[np.int64], pad: str) -> npt.NDArray[np.int64]:
        return np.int64(self.clips) * (frames >= (_span(self.length, self.stride) if pad == "none" else 1))


def _span(length: int, stride: int) -> int:
    return (length - 1) * stride + 1


def _window(start: int, length: int, stride: int) -> npt.NDArray[np.int64]:
    return start + stride * np.arange(length, dtype=np.int64)
