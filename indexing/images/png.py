"""Read the size and orientation of PNG files (W3C, third edition), and whether they are animations."""

from __future__ import annotations

import struct
import zlib

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing.images.tiff import exif_orientation
from videoloader.indexing.images.window import ImageHeader, Window

_MOST_CHUNKS = 4096
# libavcodec takes either for a PNG file.
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\x8aMNG\r\n\x1a\n")
_CODECS = ("png", "apng")
# Deflate makes at most this many bytes of one.
_LARGEST_RATIO = 1032
# Limit for all colour profiles and texts of a file. Profiles take a few megabytes at most.
_MOST_UNPACKED = 16 << 20


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


def check_unpacked(codec: str, picture: bytes | memoryview, source: str) -> None:
    """Check the colour profile and texts of PNG files, which libavcodec unpacks into memory, whatever their size.

    Args:
        codec: name of the codec. Others than PNG and APNG need no check.
        picture: bytes of a packet, or of APNG's chunks before the packets, which have no signature.
        source: name of the file.

    Raises:
        UnsupportedError: they take too much memory.
    """
    left = _MOST_UNPACKED
    if codec not in _CODECS or len(picture) * _LARGEST_RATIO <= left:
        return
    packed: list[bytes] = []
    position = len(_SIGNATURES[0]) if bytes(picture[: len(_SIGNATURES[0])]) in _SIGNATURES else 0
    while position + 8 <= len(picture):
        length, kind = struct.unpack_from(">I4s", picture, position)
        if kind in (b"iCCP", b"zTXt"):
            packed.append(bytes(picture[position + 8 : position + 8 + length]))
        position += 12 + length
    if sum(map(len, packed)) * _LARGEST_RATIO <= left:
        return
    for chunk in packed:
        _, _, data = chunk.partition(b"\0")  # a byte for the method follows the name
        try:
            left -= len(zlib.decompressobj().decompress(data[1:], left + 1))
        except zlib.error:
            continue
        if left < 0:
            told = f"has a colour profile or texts of more than {_MOST_UNPACKED >> 20} MiB unpacked"
            raise UnsupportedError(told, source)
