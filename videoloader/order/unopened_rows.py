"""Rows of a data set that a loader counts without opening their files: images, and folders of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.dataset import VideoDataset
from videoloader.dataset.ranges import rows_in_seconds
from videoloader.dataset.table import NONE
from videoloader.errors import SourceError, VideoLoaderError
from videoloader.errors.of_handlers import errors_suppressed, raise_of_handler
from videoloader.indexing.images.frame_times import OddTimes, odd_times, times_of_names
from videoloader.indexing.sources.folder import IMAGE_ENDINGS, is_frame_folder, list_names
from videoloader.indexing.sources.opening import local_path
from videoloader.sampling.mode import CountsByLength, FrameMode, takes_one_clip

# A thread that has waited for so long, and so many times as long as it has worked, mostly waits.
_SECONDS_WAITED, _WAITING = 0.1, 4


class CountedFolder(NamedTuple):
    """The number of files in a folder, and what there is to tell of their times."""

    files: int
    odd: OddTimes | None


def taken_as_images(dataset: VideoDataset, mode: FrameMode) -> npt.NDArray[np.bool_]:
    """bool[N]: the rows that count as image files of one frame without being opened."""
    table, one = dataset.table, np.ones(1, np.int64)
    if not isinstance(mode, CountsByLength) or mode.clips_by_length(one) is None:
        return np.zeros(len(table), np.bool_)
    # A pattern means the files of a folder.
    return _are_whole(dataset) & table.path.end_with(IMAGE_ENDINGS) & ~table.path.hold("*") & ~table.path.hold("?")


def counted_if_folders(dataset: VideoDataset, mode: FrameMode) -> npt.NDArray[np.bool_]:
    """bool[N]: the rows whose files are only counted if they are folders of image files; see ``count_folders``.

    A clip then opens its folder by itself, which pays off where it is the only one. And all clips must have one length,
    which is known before they are drawn.
    """
    return _are_whole(dataset) if takes_one_clip(mode) else np.zeros(len(dataset), np.bool_)


def seem_unopened(dataset: VideoDataset, mode: FrameMode, open_folders: bool) -> bool:
    """Whether a loader will probably open none of the rows: all are image files, or the first is a folder of them."""
    if taken_as_images(dataset, mode).all():
        return True
    folders = not open_folders and bool(counted_if_folders(dataset, mode).all())
    with errors_suppressed(SourceError):  # which the row itself tells
        return folders and is_frame_folder(local_path(dataset.table.path[0]))
    return False


def _are_whole(dataset: VideoDataset) -> npt.NDArray[np.bool_]:
    table = dataset.table
    whole: npt.NDArray[np.bool_] = (table.start == NONE) & (table.stop == NONE) & ~rows_in_seconds(table)
    return whole


def count_folders(paths: Iterable[str], pool: Executor) -> Iterator[CountedFolder | VideoLoaderError | None]:
    """The number of image files in each folder, or its error; None for a path that means anything else.

    Threads would take the GIL from one another with each call of the system, and need three times as much processor
    time. So the calling thread does this alone, unless it mostly waits, as for a file server.
    """
    rest = iter(paths)
    worked = waited = 0.0
    for path in rest:
        begin, used = time.perf_counter(), time.thread_time()
        found = _count_files(path)
        used = time.thread_time() - used
        worked, waited = worked + used, waited + time.perf_counter() - begin - used
        yield found
        if waited > max(_SECONDS_WAITED, _WAITING * worked):
            break
    yield from pool.map(_count_files, rest)


def _count_files(path: str) -> CountedFolder | VideoLoaderError | None:
    path = local_path(path)
    try:
        listed = list_names(path) if is_frame_folder(path) else None
    except VideoLoaderError as error:
        raise_of_handler(error)
        return error
    if listed is None:  # another file, or a folder whose times are listed
        return None
    return CountedFolder(len(listed.names), odd_times(listed.source, times_of_names(*listed[1:])))
