"""Recognise pictures that refer to no other by their first bytes, for codecs with headers of a few bits.

Most of these codecs have no published standard; for them the header is the one that libavcodec reads.
"""

from __future__ import annotations

from collections.abc import Callable

from videoloader.indexing.bitstream.bits import BitReader

# Bytes of a packet that contain everything read of it.
LONGEST_HEAD = 512


def _h263(head: bytes) -> bool:
    """Check the picture coding type (ITU-T H.263, 5.1.3 and 5.1.4); other bytes may come before the start code."""
    for at in range(len(head) - 2):
        if not head[at] and not head[at + 1] and head[at + 2] >> 2 == 0x20:
            bits = BitReader.raw(head[at:])
            bits.u(22 + 8 + 5)  # start code, temporal reference, and five bits before the source format
            if bits.u(3) < 6:
                return bits.u(1) == 0
            if bits.u(3) == 1:
                bits.u(18)
            return bits.u(3) == 0
    return False


def _flv1(head: bytes) -> bool:
    """Check the picture type of Sorenson's H.263 (SWF file format specification, version 19, H.263 video packet)."""
    bits = BitReader.raw(head)
    if bits.u(17) != 1:
        return False
    bits.u(5 + 8)
    size = bits.u(3)
    if size < 2:
        bits.u((16, 32)[size])
    return bits.u(2) == 0


def _first_bit_is_zero(head: bytes) -> bool:
    return head[0] >> 7 == 0


def _two_bit_type_is_intra(head: bytes) -> bool:
    return head[0] >> 6 == 0


def _range_coded_one(head: bytes) -> bool:
    """Read the first symbol of a range coder, with even odds (RFC 9043, 3.8.1 and 4.4)."""
    return int.from_bytes(head[:2], "big") >= 0x7F80


def _indeo4(head: bytes) -> bool:
    fields = int.from_bytes(head[:3], "little")
    return fields & 0x3FFFF == 0x3FFF8 and fields >> 18 & 7 == 0


# Theora: sections 6.1 and 7.1 of the specification; an empty packet repeats the picture before.
HEAD_READERS: dict[str, Callable[[bytes], bool]] = {
    **dict.fromkeys(("h263", "h263p"), _h263),
    **dict.fromkeys(("msmpeg4v2", "msmpeg4v3", "wmv1", "theora"), _two_bit_type_is_intra),
    **dict.fromkeys(("wmv2", "vp3", "vp5", "vp6", "vp6f"), _first_bit_is_zero),
    **dict.fromkeys(("ffv1", "snow"), _range_coded_one),
    "flv1": _flv1,
    "msmpeg4v1": lambda head: head[:4] == b"\0\0\1\0" and head[4] >> 1 & 3 == 0,
    "indeo4": _indeo4,
    "indeo5": lambda head: head[0] == 0x1F,
    "svq1": lambda head: head[3] & 3 == 0,
    "vp6a": lambda head: head[3] >> 7 == 0,
    "vp7": lambda head: head[0] & 1 == 0,
    "zmbv": lambda head: head[0] & 1 == 1,
}
