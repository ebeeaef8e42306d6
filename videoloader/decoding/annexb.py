"""Packets as NVDEC's parser wants them: start codes instead of lengths, parameter sets before keyframes."""

from __future__ import annotations

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

_START_CODE = b"\0\0\0\1"
# The parameter sets of a packet stand before its first slice, mostly within these bytes.
_HEAD = 512
# Bits of a NAL unit's first byte that tell its type, and what they are in a sequence parameter set.
_TYPE_BITS = {"h264": 0x1F, "hevc": 0x7E}
_SEQUENCE_PARAMETER_SET = {"h264": 7, "hevc": 33 << 1}


def annex_b_headers(codec: str, config: bytes) -> bytes:
    """The parameter sets of a configuration record, each after a start code; other records as they are.

    A record already in Annex B form, and the header of MPEG-4 part 2, is what a decoder wants to see first.
    """
    if not nal_length_size(codec, config):
        return config if codec in ("h264", "hevc", "mpeg4") else b""
    return b"".join(
        _START_CODE + each for each in parameter_sets(codec, config) if codec != "hevc" or not _layer(each, 0)
    )


def sequence_parameter_sets(codec: str, config: bytes) -> list[bytes]:
    """Those of the base layer in a configuration record of H.264 or HEVC, header bytes included."""
    mask, wanted = _TYPE_BITS[codec], _SEQUENCE_PARAMETER_SET[codec]
    return [
        each
        for each in parameter_sets(codec, config)
        if len(each) > 1 and each[0] & mask == wanted and (codec == "h264" or not _layer(each, 0))
    ]


def add_annex_b(
    pieces: list[bytes | memoryview], payload: bytes | memoryview, codec: str, length_size: int
) -> list[bytes]:
    """Add a packet of H.264 or HEVC to what will be joined for the decoder, with a start code before each NAL unit.

    Nothing is copied. A unit that is cut off is left out, and so are those of HEVC's higher layers (other views,
    alpha), which NVDEC would give out as pictures of their own. 0.8 µs for a packet of one unit.

    Args:
        pieces: added to.
        payload: one packet.
        codec: ``"h264"`` or ``"hevc"``.
        length_size: from ``nal_length_size``; 0 for packets with start codes, which are added as they are.

    Returns:
        The sequence parameter sets in the packet, header bytes included.
    """
    if not length_size:
        pieces.append(payload)
        return _leading_parameter_sets(payload, codec)
    found: list[bytes] = []
    layered = codec == "hevc"
    mask, wanted = _TYPE_BITS[codec], _SEQUENCE_PARAMETER_SET[codec]
    position, size = 0, len(payload)
    while position + length_size < size:
        start = position + length_size
        position = start + int.from_bytes(payload[position:start], "big")
        if position > size:
            break
        if position == start or (layered and _layer(payload, start)):
            continue
        unit = payload[start:position]
        pieces += (_START_CODE, unit)
        if payload[start] & mask == wanted:
            found.append(bytes(unit))
    return found


def _layer(payload: bytes | memoryview, start: int) -> int:
    """nuh_layer_id of the HEVC NAL unit that begins there (ITU-T H.265, 7.3.1.2); 0 where it is cut off."""
    return (payload[start] & 1) << 5 | payload[start + 1] >> 3 if start + 1 < len(payload) else 0


def _leading_parameter_sets(payload: bytes | memoryview, codec: str) -> list[bytes]:
    """The sequence parameter sets before the first slice of a packet with start codes."""
    mask, wanted = _TYPE_BITS[codec], _SEQUENCE_PARAMETER_SET[codec]
    head = bytes(payload[:_HEAD])
    found: list[bytes] = []
    at = head.find(b"\0\0\1") + 3
    while 2 < at < len(head):
        kind = head[at] & mask
        is_slice = 1 <= kind <= 5 if codec == "h264" else kind < 32 << 1
        if is_slice:
            return found
        following = head.find(b"\0\0\1", at)
        if following < 0 and len(head) < len(payload):
            break
        if kind == wanted and (codec == "h264" or not _layer(head, at)):
            found.append(head[at : following if following >= 0 else len(head)].rstrip(b"\0"))
        at = following + 3
    if len(head) == len(payload):
        return found
    return [
        bytes(payload[start:stop]).rstrip(b"\0")
        for start, stop in iterate_nals(payload, 0)
        if payload[start] & mask == wanted and (codec == "h264" or not _layer(payload, start))
    ]
