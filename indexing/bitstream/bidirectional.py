"""Whether a picture is a B picture: only streams with such pictures are reordered in practice."""

from __future__ import annotations

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

_B = 1
_MPEG2_PICTURE, _MPEG4_PICTURE = b"\0\0\1\0", b"\0\0\1\xb6"
_MPEG2_B, _MPEG4_B = 3, 2
# Bytes of a slice that hold its first two numbers.
_SLICE_START = 16


def is_b_picture(codec: str, config: bytes, head: bytes) -> bool:
    """Whether a packet holds a B picture.

    H.264: by its first slice (slice_type of ITU-T H.264, 7.4.3). MPEG-1 and MPEG-2: picture_coding_type (ISO/IEC
    13818-2, 6.3.9). MPEG-4 part 2: vop_coding_type (ISO/IEC 14496-2, 6.3.5).

    Args:
        codec: one of these.
        config: the packet's configuration record.
        head: its first bytes; False if no picture begins in them.
    """
    if codec == "h264":
        return _is_h264_b_picture(config, head)
    code, kind_at, shift, kind = (
        (_MPEG4_PICTURE, 4, 6, _MPEG4_B) if codec == "mpeg4" else (_MPEG2_PICTURE, 5, 3, _MPEG2_B)
    )
    start = head.find(code)
    # A type has three bits in MPEG-2, and in MPEG-4 the two that are left of the shift.
    return 0 <= start < len(head) - kind_at and head[start + kind_at] >> shift & 7 == kind


def _is_h264_b_picture(config: bytes, head: bytes) -> bool:
    for start, _ in iterate_nals(head, nal_length_size("h264", config)):
        if 1 <= head[start] & 31 <= 5:
            bits = BitReader(head[start + 1 : start + 1 + _SLICE_START])
            try:
                bits.ue()
                return bits.ue() % 5 == _B
            except ValueError:  # cut off
                return False
    return False
