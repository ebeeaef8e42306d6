"""Where the bytes of a video come from: one small interface, whatever they lie in."""

from __future__ import annotations

import os

from videoloader.errors import SourceError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import IMAGE_EXTENSIONS, FolderSource, is_frame_folder
from videoloader.indexing.sources.local import FileSource, MemorySource

__all__ = ["IMAGE_EXTENSIONS", "ByteSource", "FileSource", "FolderSource", "MemorySource", "open_source"]


def open_source(source: str | os.PathLike[str] | bytes | ByteSource) -> ByteSource:
    """A ByteSource for a path, a folder of image files or bytes; a ByteSource is returned as it is.

    Raises:
        SourceError: the file does not exist, cannot be read, or is empty; or a folder holds no image files.
    """
    if isinstance(source, bytes):
        opened: ByteSource = MemorySource(source)
    elif isinstance(source, str | os.PathLike):
        opened = FolderSource(source) if is_frame_folder(os.fspath(source)) else FileSource(source)
    else:
        opened = source
    if opened.size == 0:
        raise SourceError("is empty", opened.name)
    return opened
