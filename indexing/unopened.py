"""Read files that nobody has opened before, and index them: an image file, or a folder of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoloader.errors import SourceError, UnsupportedError, enough_memory
from videoloader.indexing.build import index_opened
from videoloader.indexing.images.index import check_files
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import FolderSource, is_image_path
from videoloader.indexing.sources.lazy_folder import LazyFolder
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.opening import local_path, open_source


def read_unopened(path: str) -> tuple[ByteSource, VideoIndex]:
    """Return an image, or a folder of images, and its index.

    An image's index is that of a video with one frame. The file is opened and read once. A folder's index is made from
    its first file. Before frames of others are decoded, ``check_shown`` must look at these.

    Args:
        path: path of the image, as in ``open_source``, or of the folder.

    Raises:
        SourceError, IndexingError, UnsupportedError: as in ``build_index``; also if an image has not exactly one frame.
    """
    if not is_image_path(path):
        folder = LazyFolder(local_path(path))
        return folder, index_opened(folder)
    opened = open_source(path)
    if isinstance(opened, FolderSource):
        raise UnsupportedError("is a folder, but its name has an image extension", path)
    (content,) = opened.read_ranges([0], [opened.size])
    if len(content) < opened.size:
        raise SourceError(f"has become shorter while it was read, at byte {len(content)}", path)
    image = MemorySource(content, opened.name)
    index = index_opened(image)
    if len(index) != 1:
        raise UnsupportedError(
            f"has {len(index)} frames, but its name has an image extension: rename it, or give the loader an index",
            path,
        )
    return image, index


def check_shown(source: ByteSource, frame_numbers: npt.NDArray[np.int64]) -> None:
    """Check that the files of some frames can be decoded by the index that ``read_unopened`` returned.

    Args:
        source: the source that came with the index.
        frame_numbers: numbers of frames, in any order, repeats allowed.

    Raises:
        SourceError, IndexingError, UnsupportedError: as in ``build_index``, for one of these files.
    """
    if isinstance(source, LazyFolder):
        with enough_memory(source=source.name):
            check_files(source, np.unique(frame_numbers).tolist())
