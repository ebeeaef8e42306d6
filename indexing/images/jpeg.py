"""Read the size and orientation of JPEG files (ITU-T T.81, annex B) from the segments before the picture."""

from __future__ import annotations

import struct

from videoloader.errors import IndexingError
from videoloader.indexing.bitstream.jpeg import (
    END,
    SCAN,
    START_OF_FRAME,
    WITHOUT_LENGTH,
    iterate_segments,
    segments_before_scan,
)
from videoloader.indexing.images.tiff import exif_orientation
from videoloader.indexing.images.window import ImageHeader, Window

_APP1 = 0xE1
# Cameras write a few dozen; a file must not make us read more than this.
_MOST_SEGMENTS = 4096
# The second picture of a stream of JPEG pictures begins within this many bytes.
_FIRST_PICTURES = 16 << 20


def jpeg_header(file: Window) -> ImageHeader:
    """Read the header of a JPEG file, skipping Exif data and colour profiles.

    Raises:
        IndexingError: there is no start of a frame before the end or the first scan.
    """
    position, orientation, has_exif = 2, 1, False
    for _ in range(_MOST_SEGMENTS):
        mark, kind = file.read(position, 2)
        if mark != 0xFF or kind == 0xFF:
            position += 1  # a fill byte, or one that decoders skip
            continue
        if kind in WITHOUT_LENGTH:
            position += 2
            continue
        if kind in (END, SCAN):
            break
        if kind in START_OF_FRAME:
            height, width = struct.unpack(">HH", file.read(position + 5, 4))
            return ImageHeader("mjpeg", width, height, orientation)
        (length,) = struct.unpack(">H", file.read(position + 2, 2))
        if kind == _APP1 and not has_exif and length >= 8 and file.read(position + 4, 6) == b"Exif\0\0":
            orientation, has_exif = exif_orientation(file, position + 10), True
        position += 2 + max(length, 2)
    raise IndexingError(f"is a JPEG file without a frame header before byte {position}", file.name)


def is_jpeg_stream(file: Window) -> bool:
    """Whether JPEG pictures follow one another, as in a raw Motion JPEG video."""
    data = file.read(0, min(file.size, _FIRST_PICTURES))
    # An end directly before a start occurs nowhere else: in a picture each FF is followed by a zero, and after a
    # thumbnail the header continues. A file with a directory of its pictures (CIPA DC-007) is a single image to look
    # at.
    if b"\xff\xd9\xff\xd8" not in data:
        return False
    _, scan = segments_before_scan(data)
    return b"MPF\0" not in data[:scan]


def is_cut_off(picture: bytes | memoryview) -> bool:
    """Whether a JPEG file lacks its end. libavcodec makes up what is missing, without an error."""
    if picture[-2:] == b"\xff\xd9":
        return False
    # More may follow the end; but a thumbnail's end, before the first scan, does not count.
    scan = next((position for kind, position in iterate_segments(picture) if kind == SCAN), None)
    return scan is None or bytes(picture).find(b"\xff\xd9", scan) < 0
