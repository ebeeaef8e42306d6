"""Choose one of several video streams of a file."""

from __future__ import annotations

import re

from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_integer
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.part import PartSource

# A name that says which stream is meant.
NAMED_STREAM = re.compile(r"(.+)::stream_index=(\d{1,9})", re.DOTALL)


class StreamSource(PartSource):
    """A file, and the stream in it that is the video. Its name includes the stream, since indexes and stores go by
    names.

    Args:
        file: the bytes.
        stream_index: libavformat's number of the stream, counted from zero over all kinds of streams.
    """

    def __init__(self, file: ByteSource, stream_index: int) -> None:
        super().__init__(file, 0, file.size, f"{file.name}::stream_index={stream_index}")
        self.file, self.stream_index = file, stream_index


def choose_stream(source: ByteSource, stream_index: int | None) -> ByteSource:
    """Return the source with a stream chosen; the source itself if ``stream_index`` is None.

    Raises:
        ConfigurationError: the number is negative, or the source names another stream or is a folder of images.
    """
    if stream_index is None:
        return source
    check_integer("stream_index", stream_index, 0)
    if isinstance(source, StreamSource):
        if source.stream_index == stream_index:
            return source
        raise ConfigurationError(f"the path names a different stream than stream_index={stream_index}", source.name)
    if isinstance(source, FolderSource):
        raise ConfigurationError("images have no streams to choose from: leave stream_index out", source.name)
    return StreamSource(source, int(stream_index))
