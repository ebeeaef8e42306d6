"""Check colour profiles, texts, Exif data and scans in pictures, which libavcodec reads whatever their number."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

from videoloader.errors import UnsupportedError

# libavcodec takes either for a PNG file.
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\x8aMNG\r\n\x1a\n")
_PNG, _WITH_EXIF = ("png", "apng"), ("png", "apng", "mjpeg", "webp")
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
# Encoders of progressive JPEG files write about ten scans. One of 35 bytes may take as long as decoding a picture.
_SCAN, _MOST_SCANS = re.compile(rb"\xff[\xda]"), 1000


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
    if codec == "mjpeg" and len(_SCAN.findall(picture)) > _MOST_SCANS:
        raise UnsupportedError(f"has a JPEG picture of more than {_MOST_SCANS} scans, which take long", source)
    if codec in _PNG and len(picture) * _LARGEST_RATIO > _MOST_UNPACKED:
        _check_chunks(picture, source)


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
    directories = entries = 0
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
            if level < _DEEPEST:
                table = struct.iter_unpack(f"{order}HHI4s", content[at + 2 : at + 2 + 12 * there])
                waiting += [(value, level + 1) for tag, kind, _, value in table if tag in _POINTERS or kind == _IFD]


def _places_of_tiff(content: bytes) -> Iterator[tuple[int, str]]:
    for start, order in _TIFF:
        at = content.find(start)
        while at >= 0:
            yield at, order
            at = content.find(start, at + 1)
