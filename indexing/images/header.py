"""``ImageHeader``: the facts that an image file states before its picture begins."""

from __future__ import annotations

from typing import NamedTuple


class ImageHeader(NamedTuple):
    """The facts of one image file.

    Attributes:
        codec: libavcodec's decoder name.
        width, height: size of the coded picture in pixels.
        orientation: turn that a viewer applies, 1 to 8 (Exif 2.32, tag 0x0112); 1 is none.
        animated: whether the file has more than one picture to show.
    """

    codec: str
    width: int
    height: int
    orientation: int = 1
    animated: bool = False
