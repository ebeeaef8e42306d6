"""The packets that hold nothing but a frame that is decoded and never shown."""

from __future__ import annotations


def hides_frame(codec: str, first: int, last: int) -> bool:
    """Whether a decoder gives out no frame for a packet. False for codecs without such packets.

    VP8: show_frame, bit 4 of the frame tag (RFC 6386, 9.1). VP9: a single frame whose header says neither
    show_frame nor show_existing_frame (VP9 bitstream specification, 6.2); what is packed together into a
    superframe (annex B) holds the frame that is shown too.

    Args:
        codec: codec of the stream.
        first, last: bytes of the packet. The last is looked at only where the first tells of a hidden frame.
    """
    if codec == "vp8":
        return not first & 0x10
    if codec != "vp9":
        return False
    profile = (first >> 5 & 1) | (first >> 3 & 2)
    shift = 2 if profile == 3 else 3  # a reserved bit follows the profile
    show_existing, show = first >> shift & 1, first >> (shift - 2) & 1
    return not show_existing and not show and last & 0xE0 != 0xC0
