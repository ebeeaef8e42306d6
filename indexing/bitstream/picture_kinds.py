"""Tell kinds of pictures by the first bytes of their packets: intra, predicted, or B pictures."""

from __future__ import annotations

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.parameter_sets import is_slice

INTRA, BIDIRECTIONAL = 1, 3
_P, _B, _SP = 0, 1, 3  # slice_type of H.264, modulo 5
# How a picture begins, in which byte from there its kind is, after how many bits, and what to add to it.
_MPEG12 = (b"\0\0\1\0", 5, 3, 0)
_PICTURES = {"mpeg1video": _MPEG12, "mpeg2video": _MPEG12, "mpeg4": (b"\0\0\1\xb6", 4, 6, 1)}
# Bytes of a slice that contain its first two numbers.
_SLICE_START = 16


def picture_kind(codec: str, head: bytes) -> int | None:
    """Return the kind of a packet's first picture, as MPEG-1 and 2 number them; None if none begins in these bytes.

    Sources: picture_coding_type (ISO/IEC 13818-2, 6.3.9), and vop_coding_type of MPEG-4 part 2 (ISO/IEC 14496-2,
    6.3.5), which counts from zero.

    Args:
        codec: MPEG-1, 2 or 4.
        head: first bytes of the packet.
    """
    code, at, shift, first = _PICTURES[codec]
    start = head.find(code)
    return (head[start + at] >> shift & 7) + first if 0 <= start < len(head) - at else None


def is_b_picture(codec: str, config: bytes, head: bytes) -> bool:
    """Whether a packet contains a B picture; in practice only streams with such pictures are reordered.

    Args:
        codec: H.264 (by its first slice, slice_type of ITU-T H.264, 7.4.3) or one of ``picture_kind``.
        config: configuration record of the packet.
        head: first bytes of the packet; the result is False if no picture begins in them.
    """
    if codec != "h264":
        return picture_kind(codec, head) == BIDIRECTIONAL
    try:
        return _h264_slice_type(config, head) == _B
    except ValueError:  # the slice is truncated
        return False


def refers_back(config: bytes, payload: bytes | memoryview) -> bool:
    """Whether the first slice of an H.264 picture is a P or B slice.

    Raises:
        ValueError: the slice is truncated.
    """
    return _h264_slice_type(config, payload) in (_P, _B, _SP)


def _h264_slice_type(config: bytes, payload: bytes | memoryview) -> int | None:
    """Return slice_type of the first slice, modulo 5 (ITU-T H.264, 7.3.3 and 7.4.3); None if there is none."""
    for start, stop in iterate_nals(payload, nal_length_size("h264", config)):
        if is_slice("h264", payload[start]):
            bits = BitReader(bytes(payload[start + 1 : min(stop, start + 1 + _SLICE_START)]))
            bits.ue()
            return bits.ue() % 5
    return None
