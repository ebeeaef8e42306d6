"""Read the directory of a TIFF 6.0 picture. Exif data is a TIFF file inside another file."""

from __future__ import annotations

import struct

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.images.window import ImageHeader, Window

_SUBFILE_TYPE, _WIDTH, _HEIGHT, _COMPRESSION, _ORIENTATION, _TILE_WIDTH = 254, 256, 257, 259, 274, 322
_REDUCED_IMAGE = 1
# None, CCITT, LZW, Deflate under two numbers, PackBits. For JPEG with separate tables, libavcodec outputs a picture
# that it never wrote to, without an error.
_COMPRESSIONS = (1, 2, 3, 4, 5, 8, 32946, 32773)
# Types of TIFF 6.0, section 2, for which one number fits in the entry: SHORT and LONG.
_FORMATS = {3: "H", 4: "I"}


def tiff_header(file: Window) -> ImageHeader:
    """Read the header of a TIFF file with one page, which a reduced copy of the picture may follow.

    Raises:
        IndexingError: the directory is damaged or truncated.
        UnsupportedError: there is a second page, tiles, or a compression that libavcodec does not decode.
    """
    tags, following = _read_directory(file, 0, 4)
    if not {_WIDTH, _HEIGHT} <= tags.keys():
        raise IndexingError("its TIFF directory states no size", file.name)
    compression = tags.get(_COMPRESSION, 1)
    if compression not in _COMPRESSIONS or _TILE_WIDTH in tags:
        how = "in tiles" if _TILE_WIDTH in tags else f"with compression {compression}"
        raise UnsupportedError(f"is a TIFF file {how}, which is not supported", file.name)
    if following and not _read_directory(file, 0, following)[0].get(_SUBFILE_TYPE, 0) & _REDUCED_IMAGE:
        raise UnsupportedError("is a TIFF file of several pages, of which only the first could be decoded", file.name)
    return ImageHeader("tiff", tags[_WIDTH], tags[_HEIGHT], _known(tags.get(_ORIENTATION, 1)))


def exif_orientation(file: Window, base: int) -> int:
    """Return the orientation by Exif data at byte ``base``; 1 if they are damaged, as in viewers."""
    try:
        if file.read(base, 6) == b"Exif\0\0":  # some writers repeat this here, where it does not belong
            base += 6
        if file.read(base, 4) not in (b"II*\0", b"MM\0*"):
            return 1
        return _known(_read_directory(file, base, base + 4)[0].get(_ORIENTATION, 1))
    except IndexingError as error:
        raise_of_handler(error)
        return 1


def _known(orientation: int) -> int:
    return orientation if 1 <= orientation <= 8 else 1


def _read_directory(file: Window, base: int, pointer: int) -> tuple[dict[int, int], int]:
    """Return single numbers of a directory by tag, and the position of the pointer to the next directory, or 0."""
    order = "<" if file.read(base, 2) == b"II" else ">"
    at = base + struct.unpack(f"{order}I", file.read(pointer, 4))[0]
    (count,) = struct.unpack(f"{order}H", file.read(at, 2))
    tags: dict[int, int] = {}
    for tag, kind, values, value in struct.iter_unpack(f"{order}HHI4s", file.read(at + 2, 12 * count)):
        if kind in _FORMATS and values == 1:
            tags.setdefault(tag, struct.unpack_from(order + _FORMATS[kind], value)[0])
    following = at + 2 + 12 * count
    return tags, following if any(file.read(following, 4)) else 0
