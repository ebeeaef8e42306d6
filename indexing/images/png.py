"""Read the size and orientation of PNG files (W3C, third edition), and whether they are animations."""

from __future__ import annotations

import struct

from videoloader.errors import IndexingError
from videoloader.indexing.images.tiff import exif_orientation
from videoloader.indexing.images.window import ImageHeader, Window

_MOST_CHUNKS = 4096


def png_header(file: Window) -> ImageHeader:
    """Read the header of a PNG file, from the chunks before the picture's.

    Raises:
        IndexingError: the chunks are damaged or truncated.
    """
    if file.read(12, 4) != b"IHDR":
        raise IndexingError("is a PNG file that does not begin with IHDR", file.name)
    width, height = struct.unpack(">II", file.read(16, 8))
    position, orientation, animated = 33, 1, False
    for _ in range(_MOST_CHUNKS):
        length, kind = struct.unpack(">I4s", file.read(position, 8))
        if kind == b"IDAT":
            return ImageHeader("png", width, height, orientation, animated)
        if kind == b"eXIf":
            orientation = exif_orientation(file, position + 8)
        animated |= kind == b"acTL"
        position += 12 + length
    raise IndexingError(f"is a PNG file without a picture before byte {position}", file.name)
