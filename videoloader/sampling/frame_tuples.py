"""Frame modes of frame interpolation: a network sees some frames and makes others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, check_integer
from videoloader.sampling.columns import Pad, integer_tuple
from videoloader.sampling.placements import Placed
from videoloader.sampling.roles import Roles


@dataclass(frozen=True, repr=False)
class Triplets(Placed):
    """Three frames at equal distances, in the order of the video: before, between, after.

    The inputs are the first and the last, the target the middle one: ``batch.inputs`` and ``batch.targets``.
    ``batch.target_times`` is 0.5 where the frames come evenly. ``Reverse`` gives them backwards. A video gives all its
    triplets, or with ``clips`` random ones.

    Args:
        gap: int or (int, int), default 1. The distance between neighbours, frames; with ``clips`` also (least,
            largest), from which each clip draws its own with which a triplet fits that is not left out.
        step: int, default 1. The distance between the first frames of neighbouring triplets, frames. Random ones, too,
            begin at a multiple of it.
        even: bool, default False. Whether to leave out triplets whose middle frame is not in the middle: times from
            frame to frame, those between included, differ by more than rounding explains. That is a millisecond or a
            unit of the timestamps, whichever is more, but at most a quarter of the shortest.
        cuts: str, default None. The column of the data set that lists the first frame of each new scene, as numbers in
            the whole video, in a list or as text ``240 381``. It may be empty. Triplets across a cut are left out.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode. With padding, triplets at the end that begin in
            the range count, too; of random ones only the first, in a video that is too short for one.
        clips: int, default all triplets, one clip each. The number of triplets drawn from each video, independently,
            each start drawn uniformly from those that are not left out. A video without one gives no clip.

    Raises:
        ConfigurationError: an argument has a value that is not listed here.

    Examples:
        A video of 8 frames with a cut before frame 4, ``Triplets(cuts="cuts")``:

            frame   0 1 2 3╎4 5 6 7
            clip 0  ■ ■ ■  ╎
            clip 1    ■ ■ ■╎
            clip 2         ╎■ ■ ■
            clip 3         ╎  ■ ■ ■

        Four random ones a video and epoch, their frames 1 to 3 apart: ``Triplets((1, 3), clips=4, cuts="cuts")``.
    """

    gap: int | tuple[int, int] = 1
    _: KW_ONLY
    step: int = 1
    even: bool = False
    cuts: str | None = None
    pad: Pad = "none"
    clips: int | None = field(default=None, repr=False)

    @property
    def roles(self) -> Roles:
        """The first and the last frame are inputs."""
        return Roles((0, 2), (1,))

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        return np.arange(3, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class FrameTuples(Placed):
    """A pattern of input and target frames, at every place of the video or at random ones: first inputs, then targets.

    ``batch.inputs`` and ``batch.targets`` are these frames; ``batch.target_times`` says when targets come between the
    inputs. ``Reverse`` mirrors the pattern.

    Args:
        inputs: sequence of int. The places of the input frames, in units of ``gap``.
        targets: int or sequence of int. The places of the frames to make, or one place. None of them is an input's.
        gap: int or (int, int), default 1. The number of frames in a unit. With ``clips`` it may be the least and the
            largest number; see ``Triplets``.
        step: int, default 1. The distance between neighbouring placements, frames. Random ones, too, begin at a
            multiple of it.
        even, cuts: default False and None. The placements that are left out; see ``Triplets``.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode. With padding, placements at the end that begin
            in the range count, too; of random ones only the first, in a video that is too short for one.
        clips: int, default all placements, one clip each. The number of placements drawn from each video; see
            ``Triplets``.
        random_targets: int, default all. The number of targets drawn for each clip, all different, in the order given.

    Raises:
        ConfigurationError: an argument has a value that is not listed here.

    Examples:
        Vimeo-90K's septuplets are ``FrameTuples((0, 2, 4, 6), (1, 3, 5), step=7)``. A frame at any time between the
        first and the last of seven, as networks for arbitrary times are trained, is ``FrameTuples((0, 6), range(1, 6),
        random_targets=1, clips=4)``. A video of 5 frames, ``FrameTuples((0, 2), 1)``, i for inputs and t for targets:

            frame   0 1 2 3 4
            clip 0  i t i               frame numbers 0 2 1
            clip 1    i t i                           1 3 2
            clip 2      i t i                         2 4 3
    """

    inputs: Sequence[int]
    targets: Sequence[int] | int
    _: KW_ONLY
    gap: int | tuple[int, int] = 1
    step: int = 1
    even: bool = False
    cuts: str | None = None
    pad: Pad = "none"
    clips: int | None = field(default=None, repr=False)
    random_targets: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        single = np.ndim(self.targets) == 0
        object.__setattr__(self, "inputs", integer_tuple("inputs", self.inputs))
        object.__setattr__(self, "targets", integer_tuple("targets", [self.targets] if single else self.targets))
        both = [place for place in self.inputs if place in self._targets]
        if both:
            raise ConfigurationError(f"no place can be input and target, got {both[0]} in both: leave it out of one")
        if self.random_targets is not None:
            check_integer("random_targets", self.random_targets, 1, self._num_targets)
        super().__post_init__()

    @property
    def roles(self) -> Roles:
        """The inputs come first."""
        inputs, shown = len(self.inputs), self.random_targets or self._num_targets
        return Roles(tuple(range(inputs)), tuple(range(inputs, inputs + shown)))

    @property
    def _targets(self) -> tuple[int, ...]:
        return (self.targets,) if isinstance(self.targets, int) else tuple(self.targets)

    @property
    def _num_targets(self) -> int:
        return len(self._targets)

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        places = (*self.inputs, *self._targets)
        return np.array(places, np.int64) - min(places)

    def _draw_places(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        places = self._places
        if self.random_targets is None:
            return places
        inputs = np.arange(len(self.inputs))
        drawn = len(inputs) + np.sort(rng.permutation(self._num_targets)[: self.random_targets])
        return places[np.append(inputs, drawn)]
