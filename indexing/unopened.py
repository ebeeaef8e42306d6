"""Read files that nobody has opened before, and index them: an image file, or a folder of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoloader.errors import SourceError, UnsupportedError, enough_memory
from videoloader.indexing.build import index_opened
from videoloader.indexing.images.index import check_files
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.folder import FolderSource, is_image_path
from videoloader.indexing.sources.lazy_folder import LazyFolder
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.opening import local_path, open_source
from videoloader.indexing.sources.state import state_of


@dataclass(frozen=True, eq=False)
class _KnownFolder:
    """A folder that was opened before: its files, its index, and the numbers of files found to be like the first."""

    listed: FolderSource
    index: VideoIndex
    alike: set[int]


# The limit counts the files of all kept folders, some 250 bytes each.
_folders: DirectoryCache[_KnownFolder] = DirectoryCache(200_000, count=lambda folder: len(folder.index))


def read_unopened(path: str) -> tuple[ByteSource, VideoIndex]:
    """Return an image, or a folder of images, and its index.

    An image's index is that of a video with one frame. The file is opened and read once. A folder's index is made from
    its first file. Before frames of others are decoded, ``check_shown`` must look at these.

    Args:
        path: path of the image, as in ``open_source``, or of the folder.

    Raises:
        SourceError, IndexingError, UnsupportedError: as in ``build_index``; also if an image has not exactly one frame.
    """
    return _read_image(path) if is_image_path(path) else _read_folder(path)


def _read_folder(path: str) -> tuple[LazyFolder, VideoIndex]:
    known = _folders.kept(path)
    if known is None or not known.listed.is_current():
        folder = LazyFolder(FolderSource(local_path(path)), {0})
        made = _KnownFolder(folder.listed, index_opened(folder), folder.alike)
        _folders.get(path, lambda: made, outdated=known)
        return folder, made.index
    return LazyFolder(known.listed, known.alike), known.index


def _read_image(path: str) -> tuple[ByteSource, VideoIndex]:
    opened = open_source(path)
    if isinstance(opened, FolderSource):
        raise UnsupportedError("is a folder, but its name has an image extension", path)
    (content,) = opened.read_ranges([0], [opened.size])
    if len(content) < opened.size:
        raise SourceError(f"has become shorter while it was read, at byte {len(content)}", path)
    image = MemorySource(content, opened.name)
    index = index_opened(image, state_of(opened))
    if len(index) != 1:
        raise UnsupportedError(
            f"has {len(index)} frames, but its name has an image extension: rename it, or give the loader an index",
            path,
        )
    return image, index


def check_shown(source: ByteSource, index: VideoIndex, frame_numbers: npt.NDArray[np.int64]) -> None:
    """Check that the files of some frames can be decoded by the index that ``read_unopened`` returned.

    Args:
        source, index: as returned.
        frame_numbers: numbers of frames, in any order, repeats allowed.

    Raises:
        SourceError, IndexingError, UnsupportedError: as in ``build_index``, for one of these files.
        StaleIndexError: a file has changed since this process listed the folder. ``read_unopened`` then lists it again.
    """
    if isinstance(source, LazyFolder):
        with enough_memory(source=source.name):
            check_files(source, index, np.unique(frame_numbers).tolist())
