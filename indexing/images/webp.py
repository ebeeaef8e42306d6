"""Read the size and orientation of WebP files (RFC 9649), and whether they are animations."""

from __future__ import annotations

import struct

from videoloader.errors import IndexingError
from videoloader.indexing.images.tiff import exif_orientation
from videoloader.indexing.images.window import ImageHeader, Window

_ANIMATION, _EXIF = 0x02, 0x08
_MOST_CHUNKS = 4096


def webp_header(file: Window) -> ImageHeader:
    """Read the header of a WebP file, simple or extended.

    Raises:
        IndexingError: the file is damaged or truncated.
    """
    kind = file.read(12, 4)
    # A lossless picture of one pixel has no more than its header.
    payload = file.read(20, 5 if kind == b"VP8L" else 10)
    if kind == b"VP8X":
        # The size minus one, 24 bits each.
        width, height = (int.from_bytes(payload[at : at + 3], "little") + 1 for at in (4, 7))
        orientation = _orientation(file) if payload[0] & _EXIF else 1
        return ImageHeader("webp", width, height, orientation, bool(payload[0] & _ANIMATION))
    if kind == b"VP8 " and payload[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", payload, 6)
        return ImageHeader("webp", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L" and payload[0] == 0x2F:
        sizes = int.from_bytes(payload[1:5], "little")
        return ImageHeader("webp", (sizes & 0x3FFF) + 1, (sizes >> 14 & 0x3FFF) + 1)
    raise IndexingError("is a WebP file without a picture at byte 12", file.name)


def _orientation(file: Window) -> int:
    """Return the orientation by the Exif chunk, which comes after the picture."""
    position = 30
    for _ in range(_MOST_CHUNKS):
        if position + 8 > file.size:
            break
        kind, length = struct.unpack("<4sI", file.read(position, 8))
        if kind == b"EXIF":
            return exif_orientation(file, position + 8)
        position += 8 + length + length % 2
    return 1
