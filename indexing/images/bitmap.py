"""Plain bitmaps: BMP and the PGM and PPM of Netpbm."""

from __future__ import annotations

import re
import struct

from videoloader.errors import IndexingError
from videoloader.indexing.images.header import ImageHeader
from videoloader.indexing.images.window import Window

# Sizes of the headers that Windows and OS/2 have written: BITMAPCOREHEADER to BITMAPV5HEADER.
_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
# netpbm.sourceforge.net/doc/ppm.html: white space and comments between the numbers.
_NETPBM = re.compile(rb"P([2356])(?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s")
_NETPBM_CODECS = {b"2": "pgm", b"5": "pgm", b"3": "ppm", b"6": "ppm"}


def is_bmp(start: bytes) -> bool:
    """Whether a file begins as a BMP file does; two letters alone say little."""
    return start[:2] == b"BM" and len(start) >= 18 and struct.unpack_from("<I", start, 14)[0] in _BMP_HEADERS


def bmp_header(file: Window) -> ImageHeader:
    """Of a BMP file.

    Raises:
        IndexingError: it is cut off.
    """
    if file.read(14, 4) == b"\x0c\0\0\0":
        width, height = struct.unpack("<HH", file.read(18, 4))
    else:
        width, height = struct.unpack("<ii", file.read(18, 8))
    return ImageHeader("bmp", width, abs(height))  # a negative height: the top row comes first


def netpbm_header(file: Window) -> ImageHeader:
    """Of a PGM or PPM file, plain or raw.

    Raises:
        IndexingError: its header makes no sense.
    """
    found = _NETPBM.match(file.start())
    if not found:
        raise IndexingError("is a Netpbm file whose header tells no size", file.name)
    return ImageHeader(_NETPBM_CODECS[found[1]], int(found[2]), int(found[3]))
