"""Recognise packets that contain only a frame that is decoded and never shown."""

from __future__ import annotations


def hides_frame(codec: str, first: int, last: int) -> bool:
    """Whether a decoder outputs no frame for a packet. False for codecs without such packets.

    VP8: show_frame, bit 4 of the frame tag (RFC 6386, 9.1). VP9: a single frame whose header has neither show_frame nor
    show_existing_frame (VP9 bitstream specification, 6.2); a superframe (annex B) always includes a frame that is
    shown.

    Args:
        codec: codec of the stream.
        first, last: first and last byte of the packet. The last one matters only if the first indicates a hidden frame.
    """
    if codec == "vp8":
        return not first & 0x10
    if codec != "vp9":
        return False
    profile = (first >> 5 & 1) | (first >> 3 & 2)
    shift = 2 if profile == 3 else 3  # a reserved bit follows the profile
    show_existing, show = first >> shift & 1, first >> (shift - 2) & 1
    return not show_existing and not show and last & 0xE0 != 0xC0
