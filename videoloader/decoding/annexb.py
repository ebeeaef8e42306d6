"""Packets as NVDEC's parser wants them: start codes instead of lengths, parameter sets before keyframes."""

from __future__ import annotations

from videoloader.indexing.random_access import iterate_nals, nal_length_size

_START_CODE = b"\0\0\0\1"


def parameter_sets(codec: str, config: bytes) -> bytes:
    """The parameter sets of a configuration record, each after a start code; other records as they are.

    H.264: avcC, HEVC: hvcC (ISO/IEC 14496-15, 5.3.3.1 and 8.3.3.1). A record already in Annex B form, and
    the header of MPEG-4 part 2, is what a decoder wants to see first.
    """
    if not nal_length_size(codec, config):
        return config if codec in ("h264", "hevc", "mpeg4") else b""
    return _avcc_sets(config) if codec == "h264" else _hvcc_sets(config)


def _avcc_sets(config: bytes) -> bytes:
    sets = []
    position = 5
    for mask in (0x1F, 0xFF):  # the number of SPS has five bits, that of PPS eight
        count, position = config[position] & mask, position + 1
        for _ in range(count):
            size = int.from_bytes(config[position : position + 2], "big")
            sets.append(config[position + 2 : position + 2 + size])
            position += 2 + size
        if position >= len(config):
            break
    return b"".join(_START_CODE + each for each in sets)


def _hvcc_sets(config: bytes) -> bytes:
    sets = []
    position = 23
    for _ in range(config[22]):
        count = int.from_bytes(config[position + 1 : position + 3], "big")
        position += 3
        for _ in range(count):
            size = int.from_bytes(config[position : position + 2], "big")
            sets.append(config[position + 2 : position + 2 + size])
            position += 2 + size
    return b"".join(_START_CODE + each for each in sets)


def to_annex_b(payload: bytes | memoryview, length_size: int) -> bytes | bytearray | memoryview:
    """The packet with a start code before each NAL unit; as it is where it has them already.

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
            converted[start - 4 : start] = _START_CODE
            whole = stop
        return converted[:whole]
    return b"".join(_START_CODE + bytes(payload[start:stop]) for start, stop in iterate_nals(payload, length_size))
