"""Find the display order of MPEG-2 pictures by their headers (ISO/IEC 13818-2, 6.1.1.11 and 6.2.2)."""

from __future__ import annotations

import numpy as np

from videoloader.indexing.bitstream.picture_counts import places_by_kind
from videoloader.indexing.bitstream.picture_order import PacketHeads, PictureOrder

_PICTURE, _EXTENSION = b"\0\0\1\0", b"\0\0\1\xb5"
_SEQUENCE_EXTENSION, _PICTURE_CODING_EXTENSION = 1, 8
_I, _B = 1, 3
_FRAME = 3


def mpeg2_order(packets: PacketHeads) -> PictureOrder | None:
    """Return the order in which a decoder outputs frames; None if the headers do not determine it.

    They do not if there are field pictures, a change of low_delay, or fewer than two references before the first B
    picture.

    Args:
        packets: one frame each.
    """
    try:
        return _order(packets)
    except ValueError:
        return None


def _order(packets: PacketHeads) -> PictureOrder | None:
    late: bool | None = None
    keys: list[bool] = []
    references: list[bool] = []
    references_seen = 0
    for number, head in enumerate(packets):
        if (headers := _picture(head)) is None and (headers := _picture(packets.whole(number))) is None:
            return None
        kind, structure, low_delay = headers
        if low_delay is not None:
            if late is not None and late == low_delay:
                return None
            late = not low_delay
        if structure != _FRAME or not _I <= kind <= _B:
            return None
        if kind == _B and (not late or references_seen < 2):
            return None
        keys.append(kind == _I)
        references.append(kind != _B)
        references_seen += kind != _B
    if late is None or not keys[0]:
        return None
    is_late = np.array(references) & late
    return PictureOrder(places_by_kind(is_late).argsort(), np.array(keys), is_late)


def _picture(head: bytes) -> tuple[int, int, bool | None] | None:
    """Return picture_coding_type, picture_structure, and low_delay of a sequence header; None if truncated."""
    start = head.find(_PICTURE)
    coding = head.find(_EXTENSION, start + 4)
    if start < 0 or coding < 0 or coding + 7 > len(head) or head[coding + 4] >> 4 != _PICTURE_CODING_EXTENSION:
        return None
    low_delay = None
    sequence = head.find(_EXTENSION, 0, start)
    if sequence >= 0 and head[sequence + 4] >> 4 == _SEQUENCE_EXTENSION:
        low_delay = bool(head[sequence + 9] & 0x80)
    return head[start + 5] >> 3 & 7, head[coding + 6] & 3, low_delay
