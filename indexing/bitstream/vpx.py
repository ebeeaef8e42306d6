"""Read the picture format of VP8 and VP9 from keyframes, and recognise packets whose frame is never shown."""

from __future__ import annotations

from videoloader.indexing.bitstream import vp9
from videoloader.indexing.bitstream.formats import PictureFormat

# Maximum bytes of a keyframe's header.
LONGEST_KEYFRAME_HEADER = vp9.LONGEST_HEAD


def keyframe_format(codec: str, payload: bytes) -> PictureFormat | None:
    """Return the format of a keyframe's picture; None if the packet begins with none, or for other codecs.

    The chroma format is ``""`` for RGB, and for chroma that is halved only in height.
    """
    if codec == "vp8":
        return _vp8_format(payload)
    if codec == "vp9":
        try:
            return vp9.read_frame_header(payload).picture
        except ValueError:  # it is no keyframe, or ends too early
            return None
    return None


def _vp8_format(payload: bytes) -> PictureFormat | None:
    """Read the frame tag, start code and size of RFC 6386, 9.1."""
    if len(payload) < 10 or payload[0] & 1 or payload[3:6] != b"\x9d\x01\x2a":
        return None
    width, height = (int.from_bytes(payload[at : at + 2], "little") & 0x3FFF for at in (6, 8))
    return PictureFormat(width, height, "420", 8)


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
