"""The protocol of frame modes, and the frames that a mode chooses from a video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from videoloader import padding
from videoloader.errors import (
    ArgumentError,
    ConfigurationError,
    FrameRangeError,
    no_method,
    warn_user,
    wrong_result,
)
from videoloader.errors.checks import check_integer, check_uint64, shortened
from videoloader.errors.notes import note
from videoloader.sampling.columns import PadColumn, pad_of
from videoloader.sampling.exact_time import told_span
from videoloader.sampling.frame_list import FrameList
from videoloader.sampling.integers import several_integers
from videoloader.sampling.sampled_video import SampledVideo

if TYPE_CHECKING:
    import torch

# The forms in which users may list several frames of a video.
FrameNumbers: TypeAlias = "Sequence[int] | npt.NDArray[np.integer[Any]] | torch.Tensor"
# More frames than any video has.
_MANY_FRAMES = 1 << 40
# The note on errors of a frame mode.
IN_MODE = "in the frame mode {}"
# The ``use`` of ``clip_rng``, so that no two draws share a stream. From 0: a clip's frames and the transforms of its
# first repeat; each further repeat has the next number.
# The mixing of a batch, drawn from the generator of its first clip.
FOR_BATCH = 1 << 32
# The first clip to try in place of one that cannot be made; each further one has the next number.
FOR_STAND_IN = 1 << 33


@runtime_checkable
class FrameMode(Protocol):
    """A way to choose frames. Any object with these three members is one; no base class or registration is needed.

    Write it as a frozen dataclass: loaders identify a mode by its ``repr`` when they save their state.

    Attributes:
        pad: str or ``PadColumn``. The frames shown where a clip reaches outside its video: one of
            ``videoloader.padding.MODES``, or a column that names one for each row.

    A mode may also have ``roles``, the ``Roles`` of the frames in its clips, and ``in_seconds``, True if it chooses
    frames by their times: the loader then warns of folders of image files that have no frame rate.

    Examples:
        A complete custom mode: each frame with those shown an eighth of a second before and after it:

            @dataclass(frozen=True)
            class Around:
                pad: str = "edge"

                def num_clips(self, video):
                    return video.stop - video.first

                def frame_numbers(self, video, clip, rng):
                    middle = video.first + clip
                    return video.index.frame_at(video.index.timestamps[middle] + np.array([-0.125, 0, 0.125]))
    """

    @property
    def pad(self) -> str | PadColumn: ...

    def num_clips(self, video: SampledVideo) -> int:
        """The number of clips in the video, computed from its range, its index and its columns alone."""
        raise no_method(self, "num_clips(self, video), which gives an integer")

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64[T]: frame numbers of clip number ``clip``, before padding: they may lie outside the range.

        All randomness comes from ``rng``.
        """
        raise no_method(self, "frame_numbers(self, video, clip, rng), which gives int64[T]")


def mode_of(given: Any) -> FrameMode:
    """A frame mode unchanged, or a ``FrameList`` of a list, range, array or tensor of frame numbers.

    Raises:
        ArgumentError: the value is anything else.
        ConfigurationError: it lists no frames.

    Examples:
        >>> mode_of(range(0, 6, 2))
        FrameList(frames=(0, 2, 4), pad='none')
    """
    numbers = several_integers(given)
    if numbers is None and isinstance(given, FrameMode) and not isinstance(given, type):
        return given
    lacking = [each for each in ("pad", "num_clips", "frame_numbers") if not hasattr(given, each)]
    if 0 < len(lacking) < 3 and not isinstance(given, type):
        members = "pad, num_clips(self, video) and frame_numbers(self, video, clip, rng)"
        raise ArgumentError(f"{type(given).__name__} lacks {' and '.join(lacking)}: a frame mode has {members}")
    if numbers is None or numbers.dtype == np.bool_:
        raise ArgumentError(
            "mode must be a frame mode, such as RandomWindow(16, stride=4), or a list, range, 1-D array or 1-D tensor "
            f"of frame numbers, got {shortened(given)}"
        )
    return FrameList(numbers.tolist())


@runtime_checkable
class CountsByLength(Protocol):
    """A frame mode whose number of clips may follow from the number of frames alone.

    This method counts the clips of a million videos at once, without looking at their indexes. It is optional: without
    it ``num_clips`` is called for each video.
    """

    def clips_by_length(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """int64[V]: the number of clips in videos of these lengths; None where it depends on more than the length."""


def takes_one_clip(mode: FrameMode) -> bool:
    """Whether a mode takes one clip of a video however long that is, and all its clips have the same number of frames.

    Modes of the library say the second with an attribute ``same_length``. A video may be too short for a clip.
    """
    if not isinstance(mode, CountsByLength) or not getattr(mode, "same_length", False):
        return False
    clips = mode.clips_by_length(np.array([_MANY_FRAMES]))
    return clips is not None and int(clips[0]) == 1


@dataclass(frozen=True, eq=False)
class KnownFrames:
    """Facts about the frames of many rows that are known without their indexes.

    Attributes:
        first, stop: int64[V], the range of frames of each row.
        is_even: bool[V], whether all frames of its video are evenly spaced in time, in the sense of ``Triplets``.
        first_key_frame: int64[V], the first keyframe of its video; the number of its frames where it has no keyframe,
            -1 where that is not known.
        frames_without_key: int64[V], the longest run of frames of its video without a keyframe.
    """

    first: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    is_even: npt.NDArray[np.bool_]
    first_key_frame: npt.NDArray[np.int64]
    frames_without_key: npt.NDArray[np.int64]


@runtime_checkable
class CountsByFrames(Protocol):
    """A frame mode whose number of clips may follow from what an index store knows of a video's frames."""

    def clips_by_frames(self, known: KnownFrames) -> npt.NDArray[np.int64] | None:
        """int64[V]: the clips in each row, -1 where ``num_clips`` must be called; None to call it for all rows."""


def count_clips(mode: FrameMode, video: SampledVideo) -> int:
    """``mode.num_clips(video)``, with errors that name the mode."""
    with note(IN_MODE, mode):
        clips = mode.num_clips(video)
        return check_integer(f"{type(mode).__name__}.num_clips", clips, 0)


def clip_frames(
    mode: FrameMode, video: SampledVideo, clip: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The frames of one clip: those that the mode chooses, after padding.

    Args:
        mode: the frame mode.
        video: the frames to choose from.
        clip: number of the clip, in ``[0, mode.num_clips(video))``.
        rng: generator, from ``clip_rng``.

    Returns:
        frame numbers, int64[T], and mask, bool[T]: False where padding made the frame up.

    Raises:
        FrameRangeError: the video has no such clip.
        ConfigurationError: the mode needs a column that the data set lacks, or that holds something else.

    Examples:
        >>> clip_frames(RandomWindow(4, pad="wrap"), three_frames, 0, clip_rng(0, 0, 0))
        (array([0, 1, 2, 0]), array([ True,  True,  True, False]))
    """
    return padded(mode, video, chosen_frames(mode, video, clip, rng))


def chosen_frames(mode: FrameMode, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """int64[T]: the frames that the mode chooses, before padding. ``clip_frames`` explains arguments and errors."""
    clips = count_clips(mode, video)
    if not 0 <= clip < clips:
        raise FrameRangeError(
            f"clip {clip} of {mode} does not exist: frames {video.first} to {video.stop} give {clips} clips",
            video.index.source,
        )
    with note(IN_MODE, mode):
        return mode.frame_numbers(video, clip, rng)


def padded(
    mode: FrameMode, video: SampledVideo, chosen: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The frame numbers and mask of ``clip_frames`` for the frames that the mode chose."""
    if mode.pad is None:
        raise ConfigurationError(f'{type(mode).__name__} does not set pad: add pad = "edge" to the class')
    with note(IN_MODE, mode):
        numbers, mask = padding.pad(chosen, video.first, video.stop, pad_of(mode.pad, video))
        if not len(numbers) or len(numbers) < len(chosen):  # padding "none" drops frames outside the range
            wanted = f"frames in [{video.first}, {video.stop}) with pad={mode.pad!r}"
            raise wrong_result(mode, "frame_numbers", wanted, chosen)
        return numbers, mask


def tell_of_no_own_frame(
    mode: FrameMode, video: SampledVideo, chosen: npt.NDArray[np.int64], warned: list[str] | None
) -> None:
    """Warn about a clip whose frames are all made up by padding.

    Args:
        mode, video: the mode, and the range that it chose frames outside of.
        chosen: int64[T], those frames.
        warned: videos of earlier warnings, of which only the first is given; None to warn each time.
    """
    if warned:
        return
    if warned is not None:
        warned.append(video.index.source)
    asked = f"{mode} asks for frames {chosen.min()} to {chosen.max()} of {video.index.source}"
    there = f"there are frames {video.first} to {video.stop - 1}, which last {told_span(video)}"
    warn_user(f"{asked}, but {there}: all frames of the clip are made up by padding (mask False)")


def clip_rng(seed: int, epoch: int, clip: int, use: int = 0) -> np.random.Generator:
    """The random generator of one clip: the same wherever and whenever the clip is made.

    Philox is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): it can
    start at any key and counter. Seed and epoch are the key and the clip number is the counter's highest word, so no
    two clips share a stream, and making a generator takes microseconds.

    Args:
        seed, epoch, clip: integers in ``[0, 2**64)``; ``clip`` counts over the whole data set.
        use: an integer in ``[0, 2**64)``. Each value gives an independent generator for the same clip.

    Raises:
        ConfigurationError: a number is outside that range.

    Examples:
        >>> clip_rng(0, 3, 1_000_000).random() == clip_rng(0, 3, 1_000_000).random()
        True
    """
    check_uint64(seed=seed, epoch=epoch, clip=clip, use=use)
    key: Any = _Key(np.array([seed, epoch], np.uint64))  # numpy's annotations allow no ISeedSequence of one's own
    return np.random.Generator(np.random.Philox(key, counter=np.array([0, 0, use, clip], np.uint64)))


class _Key(ISeedSequence):
    """Gives a generator its key. With ``key=``, Philox also makes a SeedSequence, which takes three times as long.

    Args:
        words: uint64[2].
    """

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint64) -> npt.NDArray[np.uint64]:
        return self._words
