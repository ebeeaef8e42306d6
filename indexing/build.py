"""build_index: the right way to index each container."""

from __future__ import annotations

import os
import warnings

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.libav import index_by_decoding, index_by_demuxing
from videoloader.indexing.mp4 import index_mp4
from videoloader.indexing.mpegts import index_mpegts
from videoloader.indexing.sources import ByteSource, open_source

# Box types that an ISO base media or QuickTime file may begin with.
_MP4_FIRST_BOXES = {b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"pnot", b"sidx", b"uuid"}
# Pixels: about what libavcodec allows. Tables that tell of more are damaged, and nothing must be allocated by them.
_LARGEST_PICTURE = 1 << 28


def build_index(source: str | os.PathLike[str] | bytes | ByteSource) -> VideoIndex:
    """Find where every packet and frame of a video is, without decoding it.

    mp4 and mov are read from their own tables in well under a millisecond, MPEG transport streams in one pass
    over their bytes; other containers are demuxed once through libavformat. Where the packets do not say which
    frames they become (no timestamps, a start without a keyframe) the video is decoded once instead;
    ``VideoIndex.method`` tells.

    Args:
        source: path, bytes of a file, or a ByteSource.

    Returns:
        The index of the file's best video stream.

    Raises:
        SourceError: the file is missing, unreadable or empty.
        IndexingError: its tables are damaged or it is cut off.
        UnsupportedError: it holds no video, or one that nothing here can decode.

    Example:
        >>> index = build_index("clip.mp4")  # doctest: +SKIP
        >>> len(index), index.average_fps  # doctest: +SKIP
        (300, 29.97)
    """
    opened = open_source(source)
    index = None
    if opened.read(4, 4) in _MP4_FIRST_BOXES:
        try:
            index = index_mp4(opened)
        except (IndexError, ValueError, OverflowError) as error:
            # A number that no table can hold, or a box too short for what should be in it.
            raise IndexingError(f"its tables are damaged ({error})", opened.name) from error
        if index is not None and index.stream.encrypted:
            warnings.warn(f"{opened.name}: is encrypted: its frames are noise", RuntimeWarning, stacklevel=2)
        elif index is not None and _shows_what_it_cannot_start(index, opened):
            index = index_by_decoding(opened)
    else:
        index = index_mpegts(opened)
    if index is None:
        index = index_by_demuxing(opened)
    if not len(index):
        raise UnsupportedError("has no frame to show", opened.name)
    width, height = index.stream.width, index.stream.height
    if min(width, height) < 1 or width * height > _LARGEST_PICTURE:
        raise UnsupportedError(f"has pictures of {width}×{height} pixels", opened.name)
    return index


def _shows_what_it_cannot_start(index: VideoIndex, source: ByteSource) -> bool:
    """Whether frames come before the first true keyframe, in decode or display order.

    A decoder gives out some of those and not others, depending on what they refer to: only a decode tells.
    """
    if not len(index):
        return False
    if not index.packet_key[: int(index.frame_packet.min()) + 1].any():
        return True
    first_key = int(index.packet_key.argmax())
    config = index.stream.codec_configs[index.packet_config[first_key]]
    start = source.read(int(index.packet_offset[first_key]), int(index.packet_size[first_key]))
    if not is_random_access(index.stream.codec, config, start):
        return True
    return bool((index.packet_pts[index.frame_packet] < index.packet_pts[first_key]).any())
