"""Tell which JPEG, PNG and TIFF pictures decode the same whatever libavcodec's decoder was given before.

This concerns image files, and videos in Motion JPEG. Other videos refer to earlier pictures on purpose.
"""

from __future__ import annotations

import re

from videoloader.indexing.bitstream.jpeg import SCAN, has_own_tables, iterate_segments, segments_before_scan
from videoloader.indexing.index import VideoIndex

# What a JPEG decoder remembers: comments by which it recognises encoders, and application data of Motion JPEG in AVI
# and of others.
_REMEMBERED = re.compile(
    rb"\xff\xfe..(AVID|CS=ITU601|Intel\(R\) JPEG|Metasoft|MULTISCOPE)|AVI1|LJIF|mjpg|colr|xfrm", re.DOTALL
)
# Comments, application data, and the end of a picture. None of them can be among the samples.
_NOTE_OR_END = re.compile(rb"\xff[\xd9\xe0-\xef\xfe]")
# The first marker of such segments, and bytes of one that contain what tells it.
_APP0, _LONGEST_NOTE = 0xE0, 32
_COLOR_TYPE, _BY_PALETTE = 25, 3  # byte of a PNG file, from its start
_PALETTE_OR_SAMPLES = re.compile(b"PLTE|IDAT")


# What comes before the samples of the last JPEG file that was found self-contained. Others usually begin the same way.
_last_head = b""


def may_remember(index: VideoIndex) -> bool:
    """Whether ``remembered`` is about the pictures of a video."""
    return index.stream.codec == "mjpeg" or index.container == "images"


def remembered(index: VideoIndex, picture: bytes | memoryview) -> frozenset[bytes] | None:
    """Return what a decoder remembers of a picture, which is decoded the same after others that leave the same behind.

    None if it must be decoded by itself. Empty for a video that ``may_remember`` excludes.
    """
    if index.container == "images":
        return frozenset() if is_self_contained(index.stream.codec, picture) else None
    return notes_in(picture) if index.stream.codec == "mjpeg" else frozenset()


def is_self_contained(codec: str, picture: bytes | memoryview) -> bool:
    """Whether an image file has all that a decoder might take from earlier ones, and leaves nothing for later ones.

    Args:
        codec: the file's codec.
        picture: all of it.
    """
    global _last_head
    if codec == "mjpeg":
        head = _last_head
        if not head or bytes(picture[: len(head)]) != head:
            _, scan = segments_before_scan(picture)
            if scan is None or not has_own_tables(picture) or _REMEMBERED.search(picture, 0, scan):
                return False
            _last_head = head = bytes(picture[: scan + 2 + int.from_bytes(picture[scan + 2 : scan + 4], "big")])
        found = _NOTE_OR_END.search(picture, len(head))
        return found is None or found[0] == b"\xff\xd9"
    if codec == "png" and len(picture) > _COLOR_TYPE and picture[_COLOR_TYPE] == _BY_PALETTE:
        first = _PALETTE_OR_SAMPLES.search(picture)
        return first is not None and first[0] == b"PLTE"
    return codec != "tiff"  # its decoder keeps a palette, and shows gray pictures by it


def notes_in(picture: bytes | memoryview) -> frozenset[bytes] | None:
    """Return what a JPEG decoder remembers of a picture of Motion JPEG, by which it decodes later pictures.

    None if it also affects pictures that have the same, since it comes behind the first samples.
    """
    notes, first = set[bytes](), None
    for kind, position in iterate_segments(picture):
        if kind >= _APP0 and (found := _REMEMBERED.search(picture, position, position + _LONGEST_NOTE)):
            notes.add(found[0])
        elif kind == SCAN and first is None:
            first = frozenset(notes)
    return first if first is None or first == notes else None
