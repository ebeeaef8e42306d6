"""Which packets no other packet depends on, read from the packet's own first bytes."""

from __future__ import annotations

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets


def is_disposable(codec: str, config: bytes, payload: bytes | memoryview) -> bool:
    """Whether leaving the packet out changes no other frame. False where that cannot be told.

    H.264: nal_ref_idc is 0 (ITU-T H.264, 7.4.1). HEVC: a sub-layer non-reference picture, in streams of one
    temporal layer (ITU-T H.265, 7.4.2.2). MPEG-1 and MPEG-2: a B picture (ISO/IEC 13818-2, 6.3.9).

    Args:
        codec: of the stream.
        config: the packet's configuration record.
        payload: the packet; only its first bytes are looked at.
    """
    if codec == "h264":
        return _h264_is_disposable(payload, nal_length_size(codec, config))
    if codec == "hevc":
        return has_one_layer(config) and _hevc_is_disposable(payload, nal_length_size(codec, config))
    if codec in ("mpeg1video", "mpeg2video"):
        picture = bytes(payload[:4096]).find(b"\0\0\1\0")
        return 0 <= picture < len(payload) - 5 and payload[picture + 5] >> 3 & 7 == 3
    return False


def _h264_is_disposable(payload: bytes | memoryview, length_size: int) -> bool:
    for start, _ in iterate_nals(payload, length_size):
        if 1 <= payload[start] & 31 <= 5:
            return payload[start] & 0x60 == 0
    return False


def _hevc_is_disposable(payload: bytes | memoryview, length_size: int) -> bool:
    for start, stop in iterate_nals(payload, length_size):
        kind = payload[start] >> 1 & 63
        if stop - start < 2:
            return False
        if kind < 32:
            # Types 0, 2, … 14 are the sub-layer non-reference pictures; nuh_layer_id must be the base layer's.
            return kind <= 14 and kind % 2 == 0 and not payload[start] & 1 and payload[start + 1] >> 3 == 0
    return False


def has_one_layer(config: bytes) -> bool:
    """Whether sps_max_sub_layers_minus1 is 0 in the first SPS of an HEVC configuration (ITU-T H.265, 7.3.2.2.1)."""
    for unit in parameter_sets("hevc", config):
        if len(unit) > 2 and unit[0] >> 1 & 63 == 33:
            # After the two-byte NAL header: vps id (4 bits), max sub layers minus 1 (3 bits).
            return unit[2] >> 1 & 7 == 0
    return False
