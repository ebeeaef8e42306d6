"""Kinds of pictures, by the first bytes of their packets: intra, predicted, or B pictures."""

from __future__ import annotations

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

INTRA, BIDIRECTIONAL = 1, 3
_H264_B = 1
# How a picture begins, at which byte from there on its kind stands, behind how many bits, and what is added to it.
_MPEG12 = (b"\0\0\1\0", 5, 3, 0)
_PICTURES = {"mpeg1video": _MPEG12, "mpeg2video": _MPEG12, "mpeg4": (b"\0\0\1\xb6", 4, 6, 1)}
# Bytes of a slice that hold its first two numbers.
_SLICE_START = 16


def picture_kind(codec: str, head: bytes) -> int | None:
    """The kind of the first picture in a packet, as MPEG-1 and 2 number them; None where none begins in these bytes.

    Sources: picture_coding_type (ISO/IEC 13818-2, 6.3.9), and vop_coding_type of MPEG-4 part 2 (ISO/IEC 14496-2,
    6.3.5), which counts from zero.

    Args:
        codec: one of these.
        head: the packet's first bytes.
    """
    code, at, shift, first = _PICTURES[codec]
    start = head.find(code)
    return (head[start + at] >> shift & 7) + first if 0 <= start < len(head) - at else None


def is_b_picture(codec: str, config: bytes, head: bytes) -> bool:
    """Whether a packet holds a B picture; only streams with such pictures are reordered in practice.

    Args:
        codec: H.264 (by its first slice, slice_type of ITU-T H.264, 7.4.3) or one of ``picture_kind``.
        config: the packet's configuration record.
        head: its first bytes; False if no picture begins in them.
    """
    if codec != "h264":
        return picture_kind(codec, head) == BIDIRECTIONAL
    for start, _ in iterate_nals(head, nal_length_size("h264", config)):
        if 1 <= head[start] & 31 <= 5:
            bits = BitReader(head[start + 1 : start + 1 + _SLICE_START])
            try:
                bits.ue()
                return bits.ue() % 5 == _H264_B
            except ValueError:  # cut off
                return False
    return False
