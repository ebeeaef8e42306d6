"""Whether decoding can really start at a packet: what the container calls a keyframe is not always one."""

from __future__ import annotations

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.sei import iterate_messages


def is_random_access(codec: str, config: bytes, payload: bytes | memoryview) -> bool:
    """Whether a decoder that knows nothing before this packet gives right frames from it on.

    H.264: an IDR picture, or a recovery point that recovers at once (ITU-T H.264, 7.4.1.2.4 and D.2.8).
    HEVC: an IRAP picture (ITU-T H.265, 3.69). MPEG-4 part 2: an I-VOP (ISO/IEC 14496-2, 6.3.5).
    Other codecs: as the container says.
    """
    if codec == "h264":
        for start, stop in iterate_nals(payload, nal_length_size(codec, config)):
            kind = payload[start] & 31
            if kind == 5 or (kind == 6 and _recovers_at_once(bytes(payload[start + 1 : stop]))):
                return True
            if kind == 1:
                return False
        return False
    if codec == "hevc":
        for start, _ in iterate_nals(payload, nal_length_size(codec, config)):
            kind = payload[start] >> 1 & 63
            if kind < 32:
                return 16 <= kind <= 23
        return False
    if codec == "mpeg4":
        vop = bytes(payload[:4096]).find(b"\0\0\1\xb6")
        return 0 <= vop < len(payload) - 4 and payload[vop + 4] >> 6 == 0
    return True


def _recovers_at_once(sei: bytes) -> bool:
    """Whether an H.264 SEI NAL holds a recovery point message with recovery_frame_cnt 0."""
    for kind, message in iterate_messages(sei):
        if kind == 6:
            # recovery_frame_cnt is the first field, Exp-Golomb coded: zero is the single bit 1.
            return bool(message[:1]) and bool(message[0] & 0x80)
    return False
