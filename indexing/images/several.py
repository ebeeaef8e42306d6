"""Refuse image files in which several pictures lie one behind the other, as ffmpeg writes them into pipes.

Readers of images show the first and say nothing of the others.
"""

from __future__ import annotations

import re
import struct

from videoloader.errors import UnsupportedError
from videoloader.indexing.images.bitmap import BMP_START, RAW_NETPBM

# The last chunk of a PNG file, and the signature of the next file.
_PNG_BEHIND = re.compile(rb"IEND\xaeB`\x82\x89PNG\r\n\x1a\n")


def check_single(codec: str, file: bytes | memoryview, source: str) -> None:
    """Check that no other picture of the same kind follows in a PNG, WebP, BMP, PGM or PPM file.

    Raises:
        UnsupportedError: one follows.
    """
    if codec == "png":
        follows = _PNG_BEHIND.search(file) is not None
    elif codec == "webp" and len(file) > 8:
        (size,) = struct.unpack_from("<I", file, 4)
        follows = bytes(file[8 + size + size % 2 :][:4]) == b"RIFF"
    elif codec == "bmp" and len(file) > 6:
        (size,) = struct.unpack_from("<I", file, 2)
        follows = size > 26 and BMP_START.match(bytes(file[size:][:18])) is not None
    elif codec in ("pgm", "ppm") and (found := RAW_NETPBM.match(bytes(file[:1024]))):
        kind, *numbers = found.groups()
        width, height, largest = map(int, numbers)
        size = width * height * (3 if kind == b"6" else 1) * (2 if largest > 255 else 1)
        follows = RAW_NETPBM.match(bytes(file[found.end() + size :][:1024])) is not None
    else:
        return
    if follows:
        told = "holds several pictures, one behind the other: split it, or put them into a video"
        raise UnsupportedError(told, source)
