"""Numbers all clips of a data set: the video of each clip, its number in that video, and the video's index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock

import numpy as np
import numpy.typing as npt

from videoloader.dataset import VideoDataset, VideoEntry, entry_range
from videoloader.dataset.left_out import tell_left_out
from videoloader.dataset.ranges import ends_late, rows_in_seconds, tell_of_late_ends
from videoloader.dataset.row_frames import OF_MODES, look_up_rows, look_up_state
from videoloader.dataset.stores import Store
from videoloader.errors import ConfigurationError, NotIndexedError, VideoLoaderError, counted, reason_of, warn_user
from videoloader.errors.notes import note
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import IndexStore, VideoIndex, build_index
from videoloader.indexing.images.frame_times import OddTimes, odd_times_of, tell_of_frame_times
from videoloader.indexing.sources.opening import open_anew
from videoloader.indexing.store.cache import IndexCache
from videoloader.live_line import counted_live
from videoloader.order.unopened_rows import CountedFolder, count_folders, counted_if_folders, taken_as_images
from videoloader.order.video_range import UNOPENED, Indexes, VideoRange
from videoloader.runtime.cached_property import cached_property
from videoloader.runtime.threads import executor_of
from videoloader.sampling.mode import IN_MODE, CountsByFrames, CountsByLength, FrameMode, KnownFrames, count_clips

_PATHS_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class FrameRanges:
    """The ranges of frames that the rows of a data set mean, as columns.

    Attributes:
        rows: int64[V], the rows that can be used.
        first, stop: int64[V], the range of frames that each means.
        frames: int64[V], the number of frames of the whole video.
        indexes: indexes of the videos.
        unreadable: (path, error) of the rows that cannot be used.
        unopened: bool[V], whether each is an image file, or a folder of them, that was not opened, so that it may turn
            out to be unreadable.
    """

    rows: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    frames: npt.NDArray[np.int64]
    indexes: Indexes
    unreadable: list[tuple[str, str]]
    unopened: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ClipTable:
    """The clips of a data set under a frame mode, numbered over all videos. Its rows are made when they are accessed.

    Attributes:
        dataset: the entries.
        ranges: the ranges of frames of the usable entries.
        clip_ends: int64[V], cumulative number of clips up to and including each of these.
    """

    dataset: VideoDataset
    ranges: FrameRanges
    clip_ends: npt.NDArray[np.int64]

    @property
    def unreadable(self) -> list[tuple[str, str]]:
        """(path, error) of the entries that cannot be used."""
        return self.ranges.unreadable

    def __len__(self) -> int:
        """The number of clips."""
        return int(self.clip_ends[-1]) if len(self.clip_ends) else 0

    def __getitem__(self, clip: int) -> tuple[VideoRange, int]:
        """The video of a clip and the clip's number in it."""
        return self.clips(np.array([clip]))[0]

    def clips(self, clips: npt.NDArray[np.int64]) -> list[tuple[VideoRange, int]]:
        """The video of each clip, and the clip's number in it."""
        videos, within = self.places(clips)
        return list(zip(video_ranges(self.dataset, self.ranges, videos), within.tolist(), strict=True))

    def places(self, clips: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        """The position of each clip's video in ``ranges``, and the clip's number in it."""
        videos = np.searchsorted(self.clip_ends, clips, "right")
        return videos, clips - np.where(videos > 0, self.clip_ends[videos - 1], 0)

    def fingerprint(self, *settings: object) -> str:
        """A short name that identifies these clips in this order under these settings.

        Only the parts of paths below their common folder count, so that a data set may be mounted elsewhere.
        """
        return blake2b(self._digest + repr(settings).encode(), digest_size=16).hexdigest()

    @property
    def rows_name(self) -> str:
        """The number of rows, and a short name for their videos that does not depend on the frame mode."""
        return f"{counted(len(self.ranges.rows), 'row')} {self._rows_digest.hexdigest()[:8]}"

    @cached_property
    def _rows_digest(self) -> blake2b:
        digest = blake2b(digest_size=16)
        paths, rows = self.dataset.table.path, self.ranges.rows
        folder = paths.common_start().rfind(b"/") + 1
        for start in range(0, len(rows), _PATHS_AT_ONCE):
            digest.update(paths.ended_with_zeros(rows[start : start + _PATHS_AT_ONCE], folder))
        for numbers in (self.ranges.first, self.ranges.stop, self.ranges.frames):
            digest.update(numbers.astype("<i8").tobytes())
        return digest

    @cached_property
    def _digest(self) -> bytes:
        digest = self._rows_digest.copy()
        digest.update(self.clip_ends.astype("<i8").tobytes())
        if self.dataset.table.in_pts.any():
            digest.update(np.packbits(self.dataset.table.in_pts).tobytes())
        return digest.digest()


def build_clip_table(
    dataset: VideoDataset,
    mode: FrameMode,
    store: Store | None,
    *,
    workers: int,
    skip_unreadable: bool,
    on_indexed: Callable[[], object] = lambda: None,
    listed_in: str = "unreadable",
    open_images: bool = True,
    open_folders: bool = True,
) -> ClipTable:
    """Index all videos of a data set, or take them from a store, and number their clips.

    A warning counts the rows without clips.

    Args:
        dataset: the entries.
        mode: the frame mode that counts the clips.
        store: the index store that holds the videos, or its path.
        workers: threads that index without a store; 0 to index in the calling thread.
        skip_unreadable: whether to leave out videos that cannot be indexed, with a warning, instead of raising.
        on_indexed: function that is called after each video.
        listed_in: name of the attribute that the warning refers to.
        open_images: whether to index image files, too. If not, and without a store, a row whose path has an image's
            extension counts as one frame, unless it gives a start or stop, or ``mode`` needs more than the number of
            frames.
        open_folders: whether to index folders of image files, too. If not, and without a store, the files of a folder
            are only counted if ``mode`` takes one clip of it, unless its row gives a start or stop, or its path a list
            of times.

    Raises:
        ConfigurationError: there are no clips.
        VideoLoaderError: a video cannot be indexed, or its entry's range lies outside it.
        NotIndexedError: a video is not in the store.
    """
    if store is None:
        none = np.zeros(len(dataset), np.bool_)
        images = none if open_images else taken_as_images(dataset, mode)
        folders = none if open_folders else counted_if_folders(dataset, mode)
        known = None
        ranges, errors = _index_all(dataset, mode, images, folders, workers, skip_unreadable, on_indexed)
    else:
        opened = store if isinstance(store, IndexStore) else IndexStore(store)
        ranges, known, errors = _look_up_all(dataset, mode, opened, skip_unreadable, on_indexed)
    tell_left_out("the data set", (each.counted_as for each in errors), len(dataset), listed_in=listed_in)
    clips = _count_all(dataset, mode, ranges, known)
    if not clips.any():
        raise ConfigurationError(_why_no_clip(dataset, mode, ranges))
    if without := len(clips) - np.count_nonzero(clips):
        lengths, first = (ranges.stop - ranges.first)[clips == 0], int(ranges.rows[int(np.argmin(clips))])
        warn_user(
            f"{mode} gives no clip of {without} of the data set's {counted(len(dataset), 'row')}; the longest of them "
            f"has {_frames_and_hint(mode, int(lengths.max()))}; the first is row {first}, {dataset.table.path[first]}"
        )
    return ClipTable(dataset, ranges, np.cumsum(clips, dtype=np.int64))


def _count_all(
    dataset: VideoDataset, mode: FrameMode, ranges: FrameRanges, known: KnownFrames | None
) -> npt.NDArray[np.int64]:
    """int64[V]: the number of clips in each usable row. ``num_clips`` is called only where nothing cheaper suffices."""
    with note(IN_MODE, mode):
        clips = mode.clips_by_length(ranges.stop - ranges.first) if isinstance(mode, CountsByLength) else None
        if clips is None and known is not None and isinstance(mode, CountsByFrames):
            clips = mode.clips_by_frames(known)
    clips = np.full(len(ranges.rows), -1) if clips is None else clips.copy()
    uncounted = np.flatnonzero(clips < 0)
    for start in range(0, len(uncounted), _PATHS_AT_ONCE):
        videos = uncounted[start : start + _PATHS_AT_ONCE]
        for video, asked in zip(videos.tolist(), video_ranges(dataset, ranges, videos), strict=True):
            with note("for {}", asked.entry.path, source=asked.entry.path, row=asked.row):
                clips[video] = count_clips(mode, asked)
    return clips


def _why_no_clip(dataset: VideoDataset, mode: FrameMode, ranges: FrameRanges) -> str:
    unreadable = ranges.unreadable
    why = [f"{len(unreadable)} cannot be read: {': '.join(unreadable[0])}"] if unreadable else []
    if len(ranges.rows):
        why.insert(0, f"the longest has {_frames_and_hint(mode, int((ranges.stop - ranges.first).max()))}")
    return f"{mode} gives no clip of the data set's {counted(len(dataset), 'row')}; {'; '.join(why)}"


def _frames_and_hint(mode: FrameMode, frames: int) -> str:
    hint = " (pad='edge' makes up those that are missing)" if getattr(mode, "pad", None) == "none" else ""
    return counted(frames, "frame") + hint


def video_ranges(dataset: VideoDataset, ranges: FrameRanges, videos: npt.NDArray[np.int64]) -> list[VideoRange]:
    """Some usable rows as a frame mode sees them. Making many at once costs a fifth of making them one by one."""
    rows = ranges.rows[videos]
    numbers = (each[videos].tolist() for each in (ranges.first, ranges.stop, ranges.unopened, ranges.rows))
    return [
        VideoRange(entry, first, stop, UNOPENED if unopened else ranges.indexes, row)
        for entry, first, stop, unopened, row in zip(dataset.table.take(rows), *numbers, strict=True)
    ]


def _index_all(
    dataset: VideoDataset,
    mode: FrameMode,
    images: npt.NDArray[np.bool_],
    folders: npt.NDArray[np.bool_],
    workers: int,
    skip_unreadable: bool,
    on_indexed: Callable[[], object],
) -> tuple[FrameRanges, Collection[VideoLoaderError]]:
    indexes: dict[str, VideoIndex] = {}
    making: dict[str, Lock] = {}
    archives: set[str] = set()
    unopened = images.copy()

    def done(path: str) -> None:
        with note("in on_indexed, after {}", path):
            on_indexed()

    def row(entry: VideoEntry) -> tuple[int, int, int] | VideoLoaderError:
        try:
            # Once for all rows of a video: of one that is written to meanwhile they would differ.
            with making.setdefault(entry.path, Lock()):
                if entry.path not in indexes:
                    indexes[entry.path] = build_index(open_anew(entry.path, archives))
            index = indexes[entry.path]
            return *entry_range(entry, index), len(index)
        except VideoLoaderError as error:
            raise_of_handler(error)
            if not skip_unreadable:
                raise
            return error
        finally:
            done(entry.path)

    made: dict[int, tuple[int, int, int] | VideoLoaderError] = {}
    odd: list[OddTimes | None] = []
    with executor_of(workers, "videoloader-index") as pool:
        asked = np.flatnonzero(folders & ~images)
        paths = dataset.table.path.take(asked)[:]
        found = counted_live("listing", count_folders(paths, pool), len(paths))
        for number, path, folder in zip(asked.tolist(), paths, found, strict=True):
            if isinstance(folder, CountedFolder):
                made[number] = 0, folder.files, folder.files
                unopened[number] = True
                odd.append(folder.odd)
            elif folder is not None:
                if not skip_unreadable:
                    raise folder
                made[number] = folder
            if folder is not None:
                done(path)
        others = [number for number in np.flatnonzero(~images).tolist() if number not in made]
        videos = dataset if len(others) == len(dataset) else (dataset[number] for number in others)
        answers = counted_live("indexing", pool.map(row, videos), len(others))
        made.update(zip(others, answers, strict=True))
    for _ in range(len(dataset) - len(made)):
        on_indexed()
    in_seconds = rows_in_seconds(dataset.table).any()
    odd += map(odd_times_of, indexes.values())
    tell_of_frame_times(odd, bool(in_seconds) or getattr(mode, "in_seconds", False))
    errors = {row: each for row, each in made.items() if isinstance(each, VideoLoaderError)}
    usable = {row: each for row, each in made.items() if not isinstance(each, VideoLoaderError)}
    if not np.isnan(dataset.table.stop_seconds).all():
        entries = ((row, dataset[row], stop) for row, (_, stop, _) in usable.items() if not unopened[row])
        late = [row for row, entry, stop in entries if ends_late(entry, indexes[entry.path], stop)]
        tell_of_late_ends(dataset.table, late, indexes)
    numbers = np.tile(np.array([[0], [1], [1]], np.int64), len(dataset))
    numbers[:, list(usable)] = np.array(list(usable.values()), np.int64).reshape(-1, 3).T
    return _usable(dataset, list(numbers), indexes, errors, unopened), errors.values()


def _look_up_all(
    dataset: VideoDataset, mode: FrameMode, store: IndexStore, skip_unreadable: bool, on_indexed: Callable[[], object]
) -> tuple[FrameRanges, KnownFrames | None, Collection[VideoLoaderError]]:
    # The files have just been compared with the store, and are compared again when a clip is read.
    indexes = IndexCache(store.unverified(), compare=store.verify)
    found = dataset.table.frames
    if found is not None and found.content != look_up_state(dataset.table, store):
        warn_user(
            f"{store.path} has changed since the data set was saved, or its paths lead to other files: rows are looked "
            "up again; save the data set again"
        )
        found = None
    if found is None:
        found = look_up_rows(dataset.table, store, indexes, OF_MODES if isinstance(mode, CountsByFrames) else ())
    columns, errors = found.columns, found.errors
    for error in errors.values():
        # A store that was built for other videos is not a damaged file.
        if isinstance(error, NotIndexedError) or not skip_unreadable:
            raise error
    for _ in range(len(dataset)):
        on_indexed()
    unopened = np.broadcast_to(np.bool_(False), len(dataset))
    ranges = _usable(dataset, [columns[name] for name in ("first", "stop", "frames")], indexes, errors, unopened)
    known = None
    if isinstance(mode, CountsByFrames):
        even, key, without = (columns[name][ranges.rows] if errors else columns[name] for name in OF_MODES)
        known = KnownFrames(ranges.first, ranges.stop, even > 0, key, without)
    return ranges, known, errors.values()


def _usable(
    dataset: VideoDataset,
    numbers: Sequence[npt.NDArray[np.int64]],
    indexes: Indexes,
    errors: Mapping[int, VideoLoaderError],
    unopened: npt.NDArray[np.bool_],
) -> FrameRanges:
    """The ranges of the rows without errors; ``numbers`` are first, stop and frames of all rows."""
    rows = np.delete(np.arange(len(dataset), dtype=np.int64), list(errors))
    failed = ((dataset.table.path[row], errors[row]) for row in sorted(errors))
    unreadable = [(path, reason_of(error, path)) for path, error in failed]
    first, stop, frames = (column[rows] if errors else column for column in numbers)
    return FrameRanges(rows, first, stop, frames, indexes, unreadable, unopened[rows])
