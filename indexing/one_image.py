"""Read an image file in one piece, and index it."""

from __future__ import annotations

from videoloader.errors import SourceError, UnsupportedError
from videoloader.indexing.build import index_opened
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.opening import open_source


def read_image(path: str) -> tuple[ByteSource, VideoIndex]:
    """Return an image and its index, which is that of a video with one frame. The file is opened and read once.

    Args:
        path: path of the image, as in ``open_source``.

    Raises:
        SourceError, IndexingError, UnsupportedError: as in ``build_index``; also if there is not exactly one frame.
    """
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
