"""Packets as NVDEC's parser wants them: start codes instead of lengths, parameter sets before keyframes."""

from __future__ import annotations

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

_START_CODE = b"\0\0\0\1"


def annex_b_headers(codec: str, config: bytes) -> bytes:
    """The parameter sets of a configuration record, each after a start code; other records as they are.

    A record already in Annex B form, and the header of MPEG-4 part 2, is what a decoder wants to see first.
    """
    if not nal_length_size(codec, config):
        return config if codec in ("h264", "hevc", "mpeg4") else b""
    return b"".join(_START_CODE + each for each in parameter_sets(codec, config))


def to_annex_b(payload: bytes | memoryview, length_size: int) -> bytes | bytearray | memoryview:
    """The packet with a start code before each NAL unit; as it is where it has them already.

    A unit that is cut off is left out.

    Args:
        payload: one packet.
        length_size: from ``nal_length_size``; 0 for packets with start codes.
    """
    if not length_size:
        return payload
    if length_size == 4:
        # A length is as long as a start code: written over it, nothing moves.
        converted = bytearray(payload)
        whole = 0
        for start, stop in iterate_nals(payload, 4):
            if stop - start == int.from_bytes(payload[start - 4 : start], "big"):
                converted[start - 4 : start] = _START_CODE
                whole = stop
        return converted[:whole]
    return b"".join(
        _START_CODE + bytes(payload[start:stop])
        for start, stop in iterate_nals(payload, length_size)
        if stop - start == int.from_bytes(payload[start - length_size : start], "big")
    )
