"""The picture format of VP8 and VP9, from the header of a keyframe."""

from __future__ import annotations

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.picture import PictureFormat

# As many bytes of a packet as the header of a keyframe may take.
LONGEST_KEYFRAME_HEADER = 32
# ITU-T H.273 code point of each color_space (VP9 bitstream specification, 7.2.2).
_VP9_MATRICES = (2, 5, 1, 6, 7, 9, 2, 0)
_RGB = 7


def keyframe_format(codec: str, payload: bytes) -> PictureFormat | None:
    """What a decoder makes of a keyframe; None where the packet does not begin with one, or for other codecs.

    Pictures in RGB or with chroma halved in height only have the chroma format ``""``.
    """
    if codec == "vp8":
        return _vp8_format(payload)
    if codec == "vp9":
        try:
            return _vp9_format(BitReader.raw(payload[:LONGEST_KEYFRAME_HEADER]))
        except ValueError:  # it ends too early
            return None
    return None


def _vp8_format(payload: bytes) -> PictureFormat | None:
    """Frame tag, start code and size of RFC 6386, 9.1."""
    if len(payload) < 10 or payload[0] & 1 or payload[3:6] != b"\x9d\x01\x2a":
        return None
    width, height = (int.from_bytes(payload[at : at + 2], "little") & 0x3FFF for at in (6, 8))
    return PictureFormat(width, height, "420", 8)


def _vp9_format(bits: BitReader) -> PictureFormat | None:
    """uncompressed_header of the VP9 bitstream specification, 6.2."""
    marker, low, high = bits.u(2), bits.u(1), bits.u(1)
    profile = low | high << 1
    if profile == 3:
        bits.u(1)
    shows_existing, is_inter = bits.u(1), bits.u(1)
    if marker != 2 or shows_existing or is_inter:
        return None
    bits.u(2)
    if bits.u(24) != 0x498342:
        return None
    depth = 8 if profile < 2 else 12 if bits.u(1) else 10
    space = bits.u(3)
    chroma, full = "420", True
    if space == _RGB:
        chroma = ""
        bits.u(profile & 1)
    else:
        full = bool(bits.u(1))
        if profile & 1:
            chroma = ("444", "", "422", "420")[bits.u(2)]
            bits.u(1)
    return PictureFormat(bits.u(16) + 1, bits.u(16) + 1, chroma, depth, _VP9_MATRICES[space], full)
