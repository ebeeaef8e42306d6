"""Whether an H.264 picture is a B picture: only streams with such pictures are reordered in practice."""

from __future__ import annotations

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

_B = 1
# Bytes of a slice that hold its first two numbers.
_SLICE_START = 16


def is_h264_b_picture(config: bytes, head: bytes) -> bool:
    """Whether a packet's first slice is a B slice (slice_type of ITU-T H.264, 7.4.3).

    Args:
        config: the packet's configuration record.
        head: its first bytes; False if no slice begins in them.
    """
    for start, _ in iterate_nals(head, nal_length_size("h264", config)):
        if 1 <= head[start] & 31 <= 5:
            bits = BitReader(head[start + 1 : start + 1 + _SLICE_START])
            try:
                bits.ue()
                return bits.ue() % 5 == _B
            except ValueError:  # cut off
                return False
    return False
