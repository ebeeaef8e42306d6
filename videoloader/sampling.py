"""Frame modes: which frames of a video make a clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from videoloader import padding
from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.indexing.index import VideoIndex


class SampledVideo(Protocol):
    """What a frame mode sees of a video: the frames ``[first, stop)`` it may choose from, and the times.

    Attributes:
        first, stop: frame numbers; 0 and ``len(index)`` for a whole video.
        index: the table of the whole video.
    """

    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def index(self) -> VideoIndex: ...


class FrameMode(Protocol):
    """A way to choose frames. Any frozen dataclass with these three members is one.

    Attributes:
        pad: what stands where a clip reaches outside its video, one of ``videoloader.padding.MODES``.
    """

    @property
    def pad(self) -> str: ...

    def num_clips(self, video: SampledVideo) -> int:
        """How many clips the video gives."""

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T]: frame numbers of clip number ``clip``, before padding: they may lie outside the range.

        All randomness comes from ``rng``.
        """


@dataclass(frozen=True)
class EveryWindow:
    """All windows of ``length`` frames, ``stride`` apart, that start every ``step`` frames.

    With padding, also the windows at the end of the video that hold at least one real frame; without, only
    those that fit.

    Args:
        length: frames in a clip.
        stride: distance between neighbouring frames of a clip, frames.
        step: distance between the starts of neighbouring clips, frames; ``length * stride`` unless given,
            so that windows do not overlap.
        pad: padding mode.

    Raises:
        ConfigurationError: an argument is not positive, or the padding mode is unknown.

    Example:
        A video of 10 frames gives ``EveryWindow(3, stride=2, step=1)`` six clips: 0 2 4, 1 3 5, … 5 7 9.
    """

    length: int
    _: KW_ONLY
    stride: int = 1
    step: int | None = None
    pad: str = "none"

    def __post_init__(self) -> None:
        _check_positive(length=self.length, stride=self.stride, step=1 if self.step is None else self.step)
        padding.check_mode(self.pad)

    def num_clips(self, video: SampledVideo) -> int:
        """Number of starts on the grid of steps from which a window fits, or, with padding, begins."""
        reach = _span(self.length, self.stride) if padding.check_mode(self.pad) == "none" else 1
        return max((video.stop - video.first - reach) // self._step + 1, 0)

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: the window that starts ``clip * step`` frames into the range. Nothing is random."""
        return _window(video.first + clip * self._step, self.length, self.stride)

    @property
    def _step(self) -> int:
        return self.length * self.stride if self.step is None else self.step


@dataclass(frozen=True)
class RandomWindow:
    """Windows of ``length`` frames, ``stride`` apart, each at a start drawn uniformly from those that fit.

    A video that is too short for one window gives windows that start with its first frame and are padded;
    with ``pad="none"`` it gives no clip.

    Args:
        length: frames in a clip.
        stride: distance between neighbouring frames of a clip, frames.
        clips: windows drawn from each video, independently of each other.
        pad: padding mode.

    Raises:
        ConfigurationError: an argument is not positive, or the padding mode is unknown.

    Example:
        ``RandomWindow(16, stride=4)`` draws the usual 16×4 clip of action recognition.
    """

    length: int
    _: KW_ONLY
    stride: int = 1
    clips: int = 1
    pad: str = "edge"

    def __post_init__(self) -> None:
        _check_positive(length=self.length, stride=self.stride, clips=self.clips)
        padding.check_mode(self.pad)

    def num_clips(self, video: SampledVideo) -> int:
        """``clips``, or 0 where nothing fits and nothing may be padded."""
        reach = _span(self.length, self.stride) if padding.check_mode(self.pad) == "none" else 1
        return self.clips if video.stop - video.first >= reach else 0

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[length]: a window drawn with ``rng``."""
        starts = video.stop - video.first - _span(self.length, self.stride) + 1
        start = int(rng.integers(starts)) if starts > 1 else 0
        return _window(video.first + start, self.length, self.stride)


@dataclass(frozen=True)
class FrameList:
    """One clip with exactly these frames, in any order, repeats allowed.

    Args:
        frames: numbers counted from the start of the video's range; negative ones from its end.
        pad: padding mode, for numbers outside the range.

    Raises:
        ConfigurationError: there are no frames, one is not an integer, or the padding mode is unknown.

    Example:
        ``FrameList([0, -1])`` is the first and the last frame.
    """

    frames: Sequence[int]
    _: KW_ONLY
    pad: str = "none"

    def __post_init__(self) -> None:
        frames = np.asarray(self.frames)
        integers = np.issubdtype(frames.dtype, np.integer) and np.can_cast(frames.dtype, np.int64)
        if frames.ndim != 1 or not frames.size or not integers:
            raise ConfigurationError(f"frames must be a list of one or more integers, got {self.frames!r}")
        # A tuple of Python's own integers, so that two equal modes are equal and have one hash.
        object.__setattr__(self, "frames", tuple(frames.tolist()))
        padding.check_mode(self.pad)

    def num_clips(self, video: SampledVideo) -> int:
        """Always 1."""
        return 1

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[len(frames)]. Nothing is random.

        Raises:
            FrameRangeError: a frame lies outside the range and ``pad="none"``.
        """
        frames, size = np.array(self.frames, np.int64), video.stop - video.first
        outside = (frames < -size) | (frames >= size)
        if outside.any() and padding.check_mode(self.pad) == "none":
            raise FrameRangeError(
                f"frame {frames[outside][0]} is outside the {size} frames to choose from", video.index.source
            )
        return video.first + np.where(frames < 0, frames + size, frames)


def clip_frames(
    mode: FrameMode, video: SampledVideo, clip: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The frames of one clip: what the mode chooses, padded.

    Args:
        mode: the frame mode.
        video: the frames to choose from.
        clip: number of the clip, in ``[0, mode.num_clips(video))``.
        rng: from ``clip_rng``.

    Returns:
        frame numbers, int64[T], and mask, bool[T]: False where padding made the frame up.

    Raises:
        FrameRangeError: the video has no such clip.

    Example:
        >>> clip_frames(RandomWindow(4, pad="wrap"), three_frames, 0, clip_rng(0, 0, 0))
        (array([0, 1, 2, 0]), array([ True,  True,  True, False]))
    """
    clips = mode.num_clips(video)
    if not 0 <= clip < clips:
        raise FrameRangeError(
            f"clip {clip} of {mode} does not exist: frames {video.first} to {video.stop} give {clips} clips",
            video.index.source,
        )
    return padding.pad(mode.frame_numbers(video, clip, rng), video.first, video.stop, mode.pad)


def clip_rng(seed: int, epoch: int, clip: int) -> np.random.Generator:
    """The generator of all randomness of one clip: the same wherever and whenever the clip is made.

    Philox is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
    2011): any key and counter may be used at once. Seed and epoch are the key, the clip number is the
    counter's highest word, so no two clips share a stream and making one costs microseconds.

    Args:
        seed, epoch, clip: integers in ``[0, 2**64)``; ``clip`` counts over the whole data set.

    Raises:
        ConfigurationError: a number is outside that range.

    Example:
        >>> clip_rng(0, 3, 1_000_000).random() == clip_rng(0, 3, 1_000_000).random()
        True
    """
    for name, value in (("seed", seed), ("epoch", epoch), ("clip", clip)):
        if not 0 <= value < 2**64:
            raise ConfigurationError(f"{name} must be in [0, 2**64), got {value!r}")
    key, counter = np.array([seed, epoch], np.uint64), np.array([0, 0, 0, clip], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _check_positive(**arguments: int) -> None:
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ConfigurationError(f"{name} must be a positive integer, got {value!r}")


def _span(length: int, stride: int) -> int:
    return (length - 1) * stride + 1


def _window(start: int, length: int, stride: int) -> npt.NDArray[np.int64]:
    return start + stride * np.arange(length, dtype=np.int64)
