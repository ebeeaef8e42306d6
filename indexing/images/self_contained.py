"""Tell which image files decode the same whatever libavcodec's decoder was given before."""

from __future__ import annotations

import re

from videoloader.indexing.bitstream.jpeg import has_own_tables, segments_before_scan

# What a JPEG decoder remembers: comments by which it recognises encoders, and application data of Motion JPEG in AVI
# and of others.
_REMEMBERED = re.compile(
    rb"\xff\xfe..(AVID|CS=ITU601|Intel\(R\) JPEG|Metasoft|MULTISCOPE)|AVI1|LJIF|mjpg|colr|xfrm", re.DOTALL
)
_COLOR_TYPE, _BY_PALETTE = 25, 3  # byte of a PNG file, from its start
_PALETTE_OR_SAMPLES = re.compile(b"PLTE|IDAT")


# What comes before the samples of the last JPEG file that was found self-contained. Others usually begin the same way.
_last_head = b""


def is_self_contained(codec: str, picture: bytes | memoryview) -> bool:
    """Whether an image file has all that a decoder might take from earlier ones, and leaves nothing for later ones.

    Args:
        codec: the file's codec.
        picture: all of it.
    """
    global _last_head
    if codec == "mjpeg":
        head = _last_head
        if head and bytes(picture[: len(head)]) == head:
            return True
        _, scan = segments_before_scan(picture)
        if scan is None or not has_own_tables(picture) or _REMEMBERED.search(picture, 0, scan):
            return False
        _last_head = bytes(picture[: scan + 2 + int.from_bytes(picture[scan + 2 : scan + 4], "big")])
        return True
    if codec == "png" and len(picture) > _COLOR_TYPE and picture[_COLOR_TYPE] == _BY_PALETTE:
        first = _PALETTE_OR_SAMPLES.search(picture)
        return first is not None and first[0] == b"PLTE"
    return codec != "tiff"  # its decoder keeps a palette, and shows gray pictures by it
