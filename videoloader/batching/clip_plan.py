"""Plans clips: chooses their frames, and draws the parameters of their transforms.

This needs only the index of each video. Image files are not indexed before, so they are read first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.convert.spec import Geometry
from videoloader.errors import (
    DecodeError,
    IndexingError,
    SourceError,
    StaleIndexError,
    UnsupportedError,
    VideoLoaderError,
    enough_memory,
    warn_user,
)
from videoloader.errors.notes import note
from videoloader.errors.of_handlers import errors_suppressed, raise_of_handler
from videoloader.indexing import VideoIndex
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.unopened import check_shown, read_unopened
from videoloader.order.clip_table import ClipTable
from videoloader.order.video_range import UNOPENED, SameIndex, VideoRange
from videoloader.padding.pad import real_frames
from videoloader.reading.own_code import contents, is_own
from videoloader.runtime.cached_property import cached_property
from videoloader.runtime.forks import free_after_fork
from videoloader.sampling.mode import FrameMode, chosen_frames, clip_rng, padded, tell_of_no_own_frame
from videoloader.sampling.roles import Roles, roles_of
from videoloader.transforms.foreign_randomness import WATCHED_CALLS, generator_states, tell_of_foreign_randomness
from videoloader.transforms.planning.pipeline import DrawnView, TransformPipeline
from videoloader.transforms.time import check_roles_kept

# The errors that ``on_error`` handles: the video is at fault, not the caller.
UNREADABLE = (DecodeError, IndexingError, SourceError, UnsupportedError)
# The most files that are opened to find a readable one before any batch is made.
_MOST_TRIED = 16
# Users' transforms and frame modes may not be thread-safe, so only one of the threads that read images calls them.
_one_at_a_time = free_after_fork(threading.RLock())  # a signal's handler may use the library, too


class ClipName(NamedTuple):
    """The name of a clip in notes on errors. Its text is made only when it is needed.

    Attributes:
        number: the clip's number in the data set.
        path: path of its video.
        frame_numbers: int64[T]; None before they are chosen.
    """

    number: int
    path: str
    frame_numbers: npt.NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        frames = "" if self.frame_numbers is None else f", frames {np.array2string(self.frame_numbers, threshold=8)}"
        return f"clip {self.number} ({self.path}{frames})"


@dataclass(frozen=True, eq=False)
class ClipRule:
    """The rule by which clips are planned, in any thread or process: their mode, transforms and randomness.

    Attributes:
        mode: the frame mode.
        transforms: the plan of the transforms.
        seed: the seed of all randomness.
        repeats: number of times that each clip is transformed, each time with a new draw.
        warned: the video that a warning named because padding made up all frames of its clip; empty before. None to
            warn each time.
    """

    mode: FrameMode
    transforms: TransformPipeline
    seed: int
    repeats: int = 1
    warned: list[str] | None = field(default_factory=list)

    @cached_property
    def is_own(self) -> bool:
        """Whether it is all library code, by which other processes, and several threads at once, can draw."""
        return is_own((self.mode, self.transforms))

    @property
    def num_views(self) -> int:
        """The number of views of each clip."""
        return self.repeats * self.transforms.views

    def views(self, clip: int, epoch: int, video: VideoRange, clip_in_video: int) -> list[PlannedClip]:
        """The views of a clip in an epoch; see ``views_by``."""
        rngs = [clip_rng(self.seed, epoch, clip, use) for use in range(self.repeats)]
        return self.views_by(rngs, clip, video, clip_in_video)

    def views_by(
        self, rngs: Sequence[np.random.Generator], clip: int, video: VideoRange, clip_in_video: int
    ) -> list[PlannedClip]:
        """Plan the views of a clip from the index alone.

        Args:
            rngs: generators from ``clip_rng``, one for each repeat. The first also chooses the frames.
            clip: the clip's number in the data set.
            video: the entry that the clip is taken from.
            clip_in_video: number of the clip among those that the mode makes of the entry.

        Raises:
            FrameRangeError: the video has no such clip.
            ConfigurationError: the mode or a transform cannot be applied to the video.
        """
        mode, transforms = self.mode, self.transforms
        entry, roles = video.entry, roles_of(mode)
        with note("for {}", ClipName(clip, entry.path), source=entry.path, row=video.row), enough_memory():
            chosen = chosen_frames(mode, video, clip_in_video, rngs[0])
            if roles is not None and transforms.time:
                check_roles_kept(mode, transforms.time)
                chosen = _shown_in_span(transforms, rngs[0], chosen)
            frame_numbers, mask = padded(mode, video, chosen)
            if not mask[0] and not mask.any():  # looking at one frame first is quicker
                tell_of_no_own_frame(mode, video, chosen, self.warned)
            length, display_size = len(frame_numbers), video.index.stream.display_size
        name = ClipName(clip, entry.path, frame_numbers)
        with note("for {}", name, source=entry.path, row=video.row), enough_memory():
            if transforms.time and length and roles is None:
                shown = transforms.positions(rngs[0], length)
                frame_numbers, mask = frame_numbers[shown], mask[shown]
            views = [
                view
                for rng in rngs
                for view in transforms.draw(display_size, length, rng, label=entry.label, columns=entry.columns)
            ]
        return [PlannedClip(clip, video, frame_numbers, mask, view, at, roles=roles) for at, view in enumerate(views)]

    def views_of_unopened(
        self, clip: int, epoch: int, video: VideoRange, clip_in_video: int
    ) -> tuple[ByteSource, VideoIndex, list[PlannedClip]]:
        """Read an image file or a folder of them: its source, its index, and the views of its clip in an epoch.

        Raises:
            SourceError, IndexingError, UnsupportedError: as in ``read_unopened`` and ``check_shown``.
            StaleIndexError: a folder has other files than when they were counted.
            FrameRangeError, ConfigurationError: as in ``views_by``.
        """
        for again in (False, True):
            source, index = read_unopened(video.entry.path)
            if len(index) != video.stop:
                told = f"has {len(index)} image files, but had {video.stop} when it was listed"
                raise StaleIndexError(told, source.name)
            with nullcontext() if self.is_own else _one_at_a_time:
                known = VideoRange(video.entry, video.first, video.stop, SameIndex(index), video.row)
                views = self.views(clip, epoch, known, clip_in_video)
            try:
                check_shown(source, index, real_frames(views[0].frame_numbers))
                break
            except StaleIndexError as error:
                raise_of_handler(error)
                if again:
                    raise
        return source, index, views


class Undrawn(NamedTuple):
    """Marks a clip of a file that has not been opened yet: an image, or a folder of them.

    Attributes:
        rule, epoch, clip_in_video: arguments of the draw when the file is read; see ``ClipRule.views``.
    """

    rule: ClipRule
    epoch: int
    clip_in_video: int


@dataclass(eq=False, slots=True)
class PlannedClip:
    """A clip of the table with everything that was drawn for it.

    It is never changed; it is not a frozen dataclass only because those take three times as long to make.

    Attributes:
        number: the clip's number in the data set.
        video: the entry that the clip is taken from, and its index.
        frame_numbers, mask: int64[T] and bool[T]; see ``clip_frames``.
        drawn: the geometry and operations drawn for its pixels.
        view: the number of this view of the clip, from 0. ``repeats`` and some transforms make several.
        repeated: whether the clip comes out of turn in the epoch.
        roles: roles of the clip's frames; None where its mode has none.
        undrawn: the draw to make when the file is read; None for a clip that is drawn. Until then
            ``frame_numbers``, ``mask`` and ``drawn`` are a guess: those of another file.
    """

    number: int
    video: VideoRange
    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    drawn: DrawnView
    view: int = 0
    repeated: bool = False
    roles: Roles | None = None
    undrawn: Undrawn | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether its frames and pixels are drawn, as they are for all but files that were not opened yet."""
        return self.undrawn is None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(frames, height, width) as decoded."""
        return len(self.frame_numbers), *self.drawn.geometry.output_size

    @property
    def name(self) -> ClipName:
        """The clip's name in notes on errors."""
        return ClipName(self.number, self.video.entry.path, self.frame_numbers)


def drawn_now(clip: PlannedClip) -> PlannedClip:
    """The clip with everything drawn; a file that was not opened yet is read first.

    Raises:
        SourceError, IndexingError, UnsupportedError, FrameRangeError, ConfigurationError: as in
            ``ClipRule.views_of_unopened``.
    """
    if clip.undrawn is None:
        return clip
    rule, epoch, clip_in_video = clip.undrawn
    _, _, views = rule.views_of_unopened(clip.number, epoch, clip.video, clip_in_video)
    return replace(views[clip.view], repeated=clip.repeated)


def drawn_if_unlike(clips: Sequence[PlannedClip]) -> Sequence[PlannedClip]:
    """The clips of a batch, drawn now if their shapes seem to differ; a clip that cannot be read stays undrawn."""
    if all(clip.is_drawn for clip in clips) or len({clip.shape for clip in clips}) == 1:
        return clips
    drawn = list(clips)
    for place, clip in enumerate(clips):
        with errors_suppressed(*UNREADABLE):  # the error is handled when the clip is decoded
            drawn[place] = drawn_now(clip)
    return drawn


def _shown_in_span(
    transforms: TransformPipeline, rng: np.random.Generator, frame_numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The frames at positions with roles after temporal transforms.

    The transforms are applied to all frames from the clip's first to its last, in video order, and each position shows
    the frame that takes the place of its own. So a reversed pattern is mirrored, and each position keeps its role.
    """
    if not len(frame_numbers):
        return frame_numbers
    first, shown = int(frame_numbers.min()), transforms.positions(rng, int(np.ptp(frame_numbers)) + 1)
    return first + shown[frame_numbers - first]


@dataclass(frozen=True, eq=False)
class ClipPlanner:
    """Plans the clips of a data set. The result depends only on these attributes and the epoch.

    Attributes:
        table: the clips.
        rule: the rule by which they are drawn.
    """

    table: ClipTable
    rule: ClipRule

    def plan(self, clip: int, epoch: int, *, repeated: bool = False) -> list[PlannedClip]:
        """The views of a clip of the table; see ``ClipRule.views`` and ``PlannedClip.repeated``.

        The views of a file that was not opened are drawn when it is read.
        """
        return self._plan(clip, *self.table[clip], epoch, repeated)

    def plan_all(
        self, clips: npt.NDArray[np.int64], epoch: int, repeated: npt.NDArray[np.bool_]
    ) -> Iterator[list[PlannedClip]]:
        """The views of each of some clips of the table; see ``plan``."""
        for clip, (video, number), again in zip(
            clips.tolist(), self.table.clips(clips), repeated.tolist(), strict=True
        ):
            yield self._plan(clip, video, number, epoch, again)

    def _plan(self, clip: int, video: VideoRange, clip_in_video: int, epoch: int, repeated: bool) -> list[PlannedClip]:
        if video.indexes is not UNOPENED:
            views = self.rule.views(clip, epoch, video, clip_in_video)
            return [replace(view, repeated=True) for view in views] if repeated else views
        undrawn = Undrawn(self.rule, epoch, clip_in_video)
        return [
            PlannedClip(clip, video, like.frame_numbers, like.mask, like.drawn, view, repeated, like.roles, undrawn)
            for view, like in enumerate(self.expected_views)
        ]

    @cached_property
    def expected_views(self) -> list[PlannedClip]:
        """The probable views of an unopened file: those of the first readable one; of 1 × 1 pixels if none is."""
        ends = self.table.clip_ends
        clips = ends[np.flatnonzero(self.table.ranges.unopened & (np.diff(ends, prepend=0) > 0))[:_MOST_TRIED]] - 1
        for clip in clips.tolist():
            with errors_suppressed():  # errors are reported when the clip is made
                return self.rule.views(clip, 0, *self.table[clip])
        video, drawn = self.table[int(clips[0])][0], DrawnView(Geometry((0, 0, 1, 1), (1, 1)), (), (), (1, 1))
        one = PlannedClip(0, video, np.zeros(1, np.int64), np.ones(1, np.bool_), drawn, roles=roles_of(self.rule.mode))
        return [one] * self.rule.num_views

    def is_random(self, clip: int, repeat: int = 0) -> bool:
        """Whether anything about a clip of the table is random, so that it differs from epoch to epoch.

        Args:
            clip: its number.
            repeat: number of one of its repeats. Frames are drawn for the first repeat and shared by all.
        """
        (video, number), rule = self.table[clip], self.rule
        used, unused = ([clip_rng(rule.seed, 0, clip, use) for use in range(repeat + 1)] for _ in range(2))
        rule.views_by(used, clip, video, number)
        return used[repeat].random() != unused[repeat].random()

    def tell_of_equal_repeats(self) -> None:
        """Warn if the repeats of the first clip are all the same. Its errors are reported when it is made."""
        if self.rule.repeats > 1 and self.rule.transforms.mixing is None:
            with errors_suppressed(VideoLoaderError):
                if not self.is_random(0, repeat=1):
                    warn_user(f"repeats={self.rule.repeats} gives equal copies of a clip: no transform of it is random")

    def tell_of_foreign_randomness(self) -> None:
        """Warn if a user's mode or transform draws the first clip differently from the same seed."""
        if self.rule.is_own or self.table.ranges.unopened[:1].any():
            return
        with errors_suppressed():  # errors are reported when the clip is made
            video, number = self.table[0]
            for epoch in range(WATCHED_CALLS):
                before = generator_states()
                once, twice = (self.rule.views(0, epoch, video, number) for _ in range(2))
                if any(
                    (one.frame_numbers != other.frame_numbers).any() for one, other in zip(once, twice, strict=True)
                ):
                    return tell_of_foreign_randomness(type(self.rule.mode).__name__)
                if [contents(view.drawn) for view in once] != [contents(view.drawn) for view in twice]:
                    return tell_of_foreign_randomness("a transform's draw")
                if generator_states() == before:
                    return
