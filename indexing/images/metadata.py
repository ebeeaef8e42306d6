"""Check colour profiles, texts, Exif data and scans in pictures, which libavcodec reads whatever their number."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

from videoloader.errors import UnsupportedError
from videoloader.indexing.limits import current_limits

# libavcodec takes either for a PNG file.
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\x8aMNG\r\n\x1a\n")
_PNG, _WITH_EXIF = ("png", "apng"), ("png", "apng", "mjpeg", "webp", "tiff")
# Deflate makes at most this many bytes of one.
_LARGEST_RATIO = 1032
# Limit for all colour profiles and texts of a file. Profiles take a few megabytes at most.
_MOST_UNPACKED = 16 << 20
# libavcodec compares each text with all others.
_MOST_TEXTS = 4096
# Chunks of a PNG file that do not hold pixels: a camera writes a few.
_MOST_OTHERS = 65536
# The first bytes of Exif data, and their byte order.
_TIFF = ((b"II*\0", "<"), (b"MM\0*", ">"))
# Tags of Exif 3.0 that point to a directory (Exif, GPS, Interoperability, MakerNote), and the type of such pointers.
_POINTERS, _IFD = {0x8769, 0x8825, 0xA005, 0x927C}, 13
# Levels of directories that libavcodec follows; and limits for all that it reads, with whatever is pointed to twice.
# Cameras write five directories and a few hundred entries.
_DEEPEST, _MOST_DIRECTORIES, _MOST_ENTRIES = 4, 64, 16384
# Bytes of a value of each type, and the limit for all values. Each byte may take six of memory, and 0.1 µs.
_SIZES, _MOST_VALUES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}, 64 << 20
# Encoders of progressive JPEG files write about ten scans. One of 35 bytes may take as long as decoding a picture:
# 0.6 ns a pixel. So there are limits for their number, and for their number times the pixels if it is not small.
_SCAN = re.compile(rb"\xff\xda\x00[\x06-\x0e][\x01-\x04]")
_MOST_SCANS, _FEW_SCANS, _MOST_SCANNED = 1000, 64, 1 << 34
# For each header of a progressive frame, libavcodec clears the coefficients of all pixels, which takes 3 ns for each.
_PROGRESSIVE = re.compile(rb"\xff\xc2..[\x01-\x10](..)(..)", re.DOTALL)
_FEW_FRAMES, _MOST_CLEARED = 8, 1 << 31


def check_metadata(codec: str, picture: bytes | memoryview, source: str) -> None:
    """Check what a picture holds beside its pixels.

    Args:
        codec: name of the codec. Only pictures that may be image files need a check.
        picture: bytes of a packet, or of APNG's chunks before the packets, which have no signature.
        source: name of the file.

    Raises:
        UnsupportedError: it takes too much memory or time.
    """
    if codec in _WITH_EXIF:
        _check_exif(picture, source)
    if codec == "mjpeg":
        _check_scans(picture, source)
    if codec in _PNG and len(picture) * _LARGEST_RATIO > _MOST_UNPACKED:
        _check_chunks(picture, source)


def _check_scans(picture: bytes | memoryview, source: str) -> None:
    limit = current_limits().picture_pixels
    frames = (
        int.from_bytes(height, "big") * int.from_bytes(width, "big") for height, width in _PROGRESSIVE.findall(picture)
    )
    sizes = [size for size in frames if size <= limit]  # libavcodec refuses others
    if len(sizes) > _FEW_FRAMES and sum(sizes) > _MOST_CLEARED:
        raise UnsupportedError(f"has a JPEG picture of {len(sizes)} frame headers, which take long", source)
    most = max(_FEW_SCANS, min(_MOST_SCANS, _MOST_SCANNED // max([*sizes, 1])))
    if len(_SCAN.findall(picture)) > most:
        raise UnsupportedError(f"has a JPEG picture of more than {most} scans, which take long", source)


def _check_chunks(picture: bytes | memoryview, source: str) -> None:
    packed: list[bytes] = []
    position = len(_SIGNATURES[0]) if bytes(picture[: len(_SIGNATURES[0])]) in _SIGNATURES else 0
    texts = others = 0
    while position + 8 <= len(picture):
        length, kind = struct.unpack_from(">I4s", picture, position)
        texts += kind in (b"tEXt", b"zTXt", b"iTXt")
        others += kind not in (b"IDAT", b"fdAT")
        if others > _MOST_OTHERS:
            raise UnsupportedError(f"has more than {_MOST_OTHERS} chunks beside those of its pixels", source)
        if kind in (b"iCCP", b"zTXt"):
            packed.append(bytes(picture[position + 8 : position + 8 + length]))
        position += 12 + length
    if texts > _MOST_TEXTS:
        raise UnsupportedError(f"has more than {_MOST_TEXTS} texts", source)
    left = _MOST_UNPACKED
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


def _check_exif(picture: bytes | memoryview, source: str) -> None:
    """Count what libavcodec reads of Exif data, in which many entries may point to one directory."""
    directories = entries = values = 0
    content = bytes(picture)
    for base, order in _places_of_tiff(content):
        waiting = [(content[base + 4 : base + 8], 1)]
        while waiting:
            pointer, level = waiting.pop()
            at = base + int.from_bytes(pointer, "little" if order == "<" else "big")
            if at + 2 > len(content):
                continue
            (count,) = struct.unpack_from(f"{order}H", content, at)
            there = min(count, (len(content) - at - 2) // 12)
            directories, entries = directories + 1, entries + there
            if directories > _MOST_DIRECTORIES or entries > _MOST_ENTRIES:
                told = f"has Exif data of more than {_MOST_DIRECTORIES} directories or {_MOST_ENTRIES} entries"
                raise UnsupportedError(told, source)
            table = [*struct.iter_unpack(f"{order}HHI4s", content[at + 2 : at + 2 + 12 * there])]
            sizes = (_SIZES.get(kind, 0) * number for _, kind, number, _ in table)
            values += sum(size for size in sizes if size <= len(content))
            if values > _MOST_VALUES:
                told = f"has Exif data or tags whose values take more than {_MOST_VALUES >> 20} MiB"
                raise UnsupportedError(told, source)
            if level < _DEEPEST:
                waiting += [(value, level + 1) for tag, kind, _, value in table if tag in _POINTERS or kind == _IFD]


def _places_of_tiff(content: bytes) -> Iterator[tuple[int, str]]:
    for start, order in _TIFF:
        at = content.find(start)
        while at >= 0:
            yield at, order
            at = content.find(start, at + 1)
