"""Frame modes for frame interpolation: a network sees some frames and predicts others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_integer
from videoloader.sampling.columns import Pad, integer_tuple
from videoloader.sampling.placements import Placed
from videoloader.sampling.roles import Roles


@dataclass(frozen=True, repr=False)
class Triplets(Placed):
    """Three equally spaced frames in video order: before, between, after.

    The inputs are the first and the last, the target the middle one: ``batch.inputs`` and ``batch.targets``.
    ``batch.target_times`` is 0.5 where the frames are evenly spaced in time. ``Reverse`` plays triplets backwards. A
    video yields all its triplets, or with ``clips`` a number of random ones.

    Args:
        gap: int or (int, int), default 1. The distance between neighbours, in frames. With ``clips`` it may be (least,
            largest): each clip draws its own gap from those with which some allowed triplet fits.
        step: int, default 1. The distance between the first frames of neighbouring triplets, in frames. Random triplets
            also begin at a multiple of it.
        even: bool, default False. Whether to leave out triplets whose middle frame is not in the middle in time: the
            intervals between consecutive frames, skipped frames included, differ by more than rounding explains.
            Rounding explains a millisecond or a unit of the timestamps, whichever is more, but at most a quarter of the
            shortest interval.
        cuts: str, default None. The data set column that lists the first frame of each new scene, as frame numbers of
            the whole video, in a list or as text ``240 381``. It may be empty, and may end with the video's number of
            frames. Triplets across a cut are left out.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode. With padding, triplets that begin in the range
            and reach beyond its end are made, too. Random triplets are padded only in a video that is too short for
            one, and then start at its first frame.
        clips: int, default all triplets, one clip each. The number of triplets drawn from each video, independently,
            each start drawn uniformly from those that are not left out. A video with no such start has no clips.

    Raises:
        ConfigurationError: an argument has a value that is not listed here.

    Examples:
        A video of 8 frames with a cut before frame 4, ``Triplets(cuts="cuts")``:

            frame   0 1 2 3╎4 5 6 7
            clip 0  ■ ■ ■  ╎
            clip 1    ■ ■ ■╎
            clip 2         ╎■ ■ ■
            clip 3         ╎  ■ ■ ■

        Four random triplets per video and epoch, with frames 1 to 3 apart: ``Triplets((1, 3), clips=4, cuts="cuts")``.
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
        """The first and the last frame are inputs, the middle one is the target."""
        return Roles((0, 2), (1,))

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        return np.arange(3, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class FrameTuples(Placed):
    """A pattern of input and target frames, placed everywhere in the video or at random; inputs come first in the clip.

    ``batch.inputs`` and ``batch.targets`` hold these frames; ``batch.target_times`` says where between the inputs each
    target lies in time. ``Reverse`` mirrors the pattern.

    Args:
        inputs: sequence of int. The positions of the input frames, in units of ``gap``.
        targets: int or sequence of int. The positions of the frames to predict, all different from those of the inputs.
        gap: int or (int, int), default 1. The number of frames in a unit. With ``clips`` it may be (least, largest);
            see ``Triplets``.
        step: int, default 1. The distance between neighbouring placements, in frames. Random placements also begin at a
            multiple of it.
        even, cuts: default False and None. The placements to leave out; see ``Triplets``.
        pad: str or ``PadColumn``, default ``"none"``. The padding mode, which applies as in ``Triplets``.
        clips: int, default all placements, one clip each. The number of placements drawn from each video; see
            ``Triplets``.
        random_targets: int, default all. The number of targets drawn for each clip, without repeats and in the order
            given.

    Raises:
        ConfigurationError: an argument has a value that is not listed here.

    Examples:
        Vimeo-90K's septuplets are ``FrameTuples((0, 2, 4, 6), (1, 3, 5), step=7)``. To train networks for arbitrary
        times, draw one target between the first and the last of seven frames: ``FrameTuples((0, 6), range(1, 6),
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
            raise ConfigurationError(f"position {both[0]} is both an input and a target: remove it from one")
        if self.random_targets is not None:
            check_integer("random_targets", self.random_targets, 1, len(self._targets))
        super().__post_init__()

    @property
    def roles(self) -> Roles:
        """The inputs come first."""
        inputs, shown = len(self.inputs), self.random_targets or len(self._targets)
        return Roles(tuple(range(inputs)), tuple(range(inputs, inputs + shown)))

    @property
    def _targets(self) -> tuple[int, ...]:
        return (self.targets,) if isinstance(self.targets, int) else tuple(self.targets)

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        places = (*self.inputs, *self._targets)
        return np.array(places, np.int64) - min(places)

    def _draw_places(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        places = self._places
        if self.random_targets is None:
            return places
        inputs = np.arange(len(self.inputs))
        drawn = len(inputs) + np.sort(rng.permutation(len(self._targets))[: self.random_targets])
        return places[np.append(inputs, drawn)]
