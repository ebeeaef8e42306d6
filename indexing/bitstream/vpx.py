"""Read the picture format of VP8 and VP9 from the header of a keyframe."""

from __future__ import annotations

from videoloader.indexing.bitstream import vp9
from videoloader.indexing.bitstream.picture import PictureFormat

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
