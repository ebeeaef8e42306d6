"""Tell by a packet's first bytes that no other packet depends on it."""

from __future__ import annotations

import re
from collections.abc import Callable

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

_MPEG2_PICTURE, _MPEG4_PICTURE = b"\0\0\1\0", b"\0\0\1\xb6"
# extension_start_code, then the identifier of the picture coding extension in four bits. The picture structure is in
# the lowest bits of the third byte.
_MPEG2_CODING_EXTENSION = re.compile(rb"\0\0\x01\xb5[\x80-\x8f].{2}", re.DOTALL)
_B, _FRAME_PICTURE, _MPEG4_B = 3, 3, 2
# The note that DivX writes into streams in which the packet of a P-VOP also contains the B-VOP after it.
_PACKED = re.compile(rb"\0\0\x01\xb2DivX\d+(?:b|Build)\d+p")


def _h264_is_disposable(payload: bytes | memoryview, config: bytes) -> bool:
    has_slice = False
    for start, _ in iterate_nals(payload, nal_length_size("h264", config)):
        if 1 <= payload[start] & 31 <= 5:
            if payload[start] & 0x60:
                return False  # in a packet of several pictures, it may be a later one
            has_slice = True
    return has_slice


def _mpeg2_is_disposable(packet: bytes | memoryview, config: bytes) -> bool:
    payload, pictures = bytes(packet), []
    start = payload.find(_MPEG2_PICTURE)
    while start >= 0:
        if start + 6 > len(payload) or payload[start + 5] >> 3 & 7 != _B:
            return False
        pictures.append(start)
        start = payload.find(_MPEG2_PICTURE, start + 4)
    if not pictures:
        return False
    extension = _MPEG2_CODING_EXTENSION.search(payload, pictures[0])
    # For a single field, it is unknown here where the other one is, and whether its frame is wanted.
    return extension is None or payload[extension.start() + 6] & 3 == _FRAME_PICTURE or len(pictures) == 2


def _mpeg4_is_disposable(packet: bytes | memoryview, config: bytes) -> bool:
    payload = bytes(packet)
    picture = payload.find(_MPEG4_PICTURE)
    if not 0 <= picture < len(payload) - 4 or payload[picture + 4] >> 6 != _MPEG4_B:
        return False
    is_alone = payload.find(_MPEG4_PICTURE, picture + 4) < 0
    return is_alone and not _PACKED.search(config) and not _PACKED.search(payload, 0, picture)


# For each codec, a function of a packet's bytes and its configuration record.
_IS_DISPOSABLE: dict[str, Callable[[bytes | memoryview, bytes], bool]] = {
    "h264": _h264_is_disposable,
    "mpeg1video": _mpeg2_is_disposable,
    "mpeg2video": _mpeg2_is_disposable,
    "mpeg4": _mpeg4_is_disposable,
}


def names_disposable(codec: str) -> bool:
    """Whether the codec's headers tell that no other packet depends on a packet."""
    return codec in _IS_DISPOSABLE


def is_disposable(codec: str, config: bytes, payload: bytes | memoryview) -> bool:
    """Whether leaving the packet out changes no other frame. False if unknown.

    H.264: nal_ref_idc is 0 (ITU-T H.264, 7.4.1). MPEG-1 and MPEG-2: a B picture (ISO/IEC 13818-2, 6.3.9), whole or both
    fields of it. MPEG-4 part 2: a B-VOP alone in its packet (ISO/IEC 14496-2, 6.3.5). For codecs that name their
    references, see ``references``.

    Args:
        codec: codec of the stream.
        config: the packet's configuration record.
        payload: bytes of the packet.
    """
    return codec in _IS_DISPOSABLE and _IS_DISPOSABLE[codec](payload, config)
