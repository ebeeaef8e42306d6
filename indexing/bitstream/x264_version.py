"""The note in which x264 tells its version, once at the start of a stream."""

from __future__ import annotations

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

# Unregistered user data (ITU-T H.264, D.1.7) of x264: its own UUID, then text. It has stood in x264's sources
# (encoder/set.c) since 2005.
_UUID = bytes.fromhex("dc45e9bde6d948b7962cd820d923eeef")
_SEI, _SPS = 6, 7  # nal_unit_type of ITU-T H.264, table 7-1
_HIGH_444 = 244  # profile_idc of ITU-T H.264, A.2.8


def demands_version(config: bytes, packet: bytes | memoryview) -> bool:
    """Whether H.264 pictures are decoded in another way if an old x264 made them: those of 4:4:4.

    Args:
        config: the stream's record.
        packet: packet at which decoding starts, which may have parameter sets of its own.
    """
    starts = [start for start, _ in iterate_nals(packet, nal_length_size("h264", config))]
    units = [*parameter_sets("h264", config), *(bytes(packet[start : start + 2]) for start in starts)]
    return any(unit[0] & 31 == _SPS and unit[1:2] == bytes([_HIGH_444]) for unit in units if unit)


def x264_version(packet: bytes | memoryview, config: bytes) -> bytes:
    """The NAL unit of an H.264 packet that holds the note, as it stands in a packet; empty if there is none.

    Args:
        packet: the first of a stream.
        config: the stream's record.
    """
    length_size = nal_length_size("h264", config)
    for start, stop in iterate_nals(packet, length_size):
        unit = bytes(packet[start:stop]).rstrip(b"\0")  # zeros before the next start code are not of the unit
        if unit and unit[0] & 31 == _SEI and _UUID in unit:
            return (len(unit).to_bytes(length_size, "big") if length_size else b"\0\0\0\1") + unit
    return b""
