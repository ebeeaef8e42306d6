"""Read the headers of plain bitmaps: BMP, and PGM and PPM of Netpbm."""

from __future__ import annotations

import re
import struct

from videoloader.errors import IndexingError
from videoloader.indexing.images.window import ImageHeader, Window

# Two letters alone say little. Byte 14 has the size of the header. Windows and OS/2 have written these sizes: 12, 16,
# 40, 52, 56, 64, 108 or 124, BITMAPCOREHEADER to BITMAPV5HEADER.
BMP_START = re.compile(rb"BM.{12}[\x0c\x10\x28\x34\x38\x40\x6c\x7c]\0\0\0", re.DOTALL)
# netpbm.sourceforge.net/doc/ppm.html: white space and comments between the numbers, which are width, height and, in
# files with binary samples, the largest sample.
_NUMBER = rb"(?:\s|#[^\n]*\n)+(\d{1,9})"
_NETPBM = re.compile(rb"P([2356])" + 2 * _NUMBER + rb"\s")
RAW_NETPBM = re.compile(rb"P([56])" + 3 * _NUMBER + rb"\s")
_NETPBM_CODECS = {b"2": "pgm", b"5": "pgm", b"3": "ppm", b"6": "ppm"}


def bmp_header(file: Window) -> ImageHeader:
    """Read the header of a BMP file.

    Raises:
        IndexingError: the header is truncated.
    """
    if file.read(14, 4) == b"\x0c\0\0\0":
        width, height = struct.unpack("<HH", file.read(18, 4))
    else:
        width, height = struct.unpack("<ii", file.read(18, 8))
    return ImageHeader("bmp", width, abs(height))  # a negative height means that the top row comes first


def netpbm_header(file: Window) -> ImageHeader:
    """Read the header of a PGM or PPM file, plain or raw.

    Raises:
        IndexingError: the header is not valid.
    """
    found = _NETPBM.match(file.start())
    if not found:
        raise IndexingError("is a Netpbm file whose header states no size", file.name)
    return ImageHeader(_NETPBM_CODECS[found[1]], int(found[2]), int(found[3]))
