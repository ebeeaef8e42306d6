"""Every error this library raises. Each names the source and, where known, the frame or the byte offset."""

from __future__ import annotations


class VideoLoaderError(Exception):
    """Base of all errors of this library.

    Args:
        message: what is wrong, in one sentence.
        source: path or name of the video the error is about; put in front of the message.

    Attributes:
        message, source: as given.
    """

    def __init__(self, message: str, source: str | None = None) -> None:
        super().__init__(f"{source}: {message}" if source else message)
        self.message = message
        self.source = source


class SourceError(VideoLoaderError):
    """The bytes could not be had: no such file, no permission, a read that came back short."""


class IndexingError(VideoLoaderError):
    """The container's tables are missing, damaged or contradict the file."""


class UnsupportedError(VideoLoaderError):
    """The file is sound, but nothing here can decode it (encrypted, unknown codec, no video stream)."""


class NotIndexedError(VideoLoaderError, LookupError):
    """An index store has no row for a video: it was never built with it."""


class StaleIndexError(SourceError):
    """A video has changed since it was indexed."""


class DecodeError(VideoLoaderError):
    """The decoder refused the packets, or a wanted frame did not come out.

    Args:
        message, source: as of every error.
        packet: number of the packet, where one is to blame.
    """

    def __init__(self, message: str, source: str | None = None, packet: int | None = None) -> None:
        super().__init__(message, source)
        self.packet = packet


class FrameRangeError(VideoLoaderError, IndexError):
    """A frame number lies outside the video."""


class ConfigurationError(VideoLoaderError, ValueError):
    """An argument has a value that cannot work; raised where it was given, not where it would hurt."""
