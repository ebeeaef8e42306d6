"""Find the note in which x264 states its version, once at the start of a stream."""

from __future__ import annotations

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

# Unregistered user data (ITU-T H.264, D.1.7) of x264: its own UUID, then text. The UUID has been in x264's sources
# (encoder/set.c) since 2005.
_UUID = bytes.fromhex("dc45e9bde6d948b7962cd820d923eeef")
_SEI, _SPS = 6, 7  # nal_unit_type of ITU-T H.264, table 7-1
_HIGH_444 = 244  # profile_idc of ITU-T H.264, A.2.8


def demands_version(config: bytes, packet: bytes | memoryview) -> bool:
    """Whether the decoding of H.264 pictures depends on x264's version, as for 4:4:4.

    Args:
        config: configuration record of the stream.
        packet: packet at which decoding starts, which may have its own parameter sets.
    """
    starts = [start for start, _ in iterate_nals(packet, nal_length_size("h264", config))]
    units = [*parameter_sets("h264", config), *(bytes(packet[start : start + 2]) for start in starts)]
    return any(unit[0] & 31 == _SPS and unit[1:2] == bytes([_HIGH_444]) for unit in units if unit)


def x264_version(packet: bytes | memoryview, config: bytes) -> bytes:
    """Return the NAL unit of an H.264 packet with the note, in the form it has in packets; empty if there is none.

    Args:
        packet: first packet of a stream.
        config: configuration record of the stream.
    """
    length_size = nal_length_size("h264", config)
    for start, stop in iterate_nals(packet, length_size):
        unit = bytes(packet[start:stop]).rstrip(b"\0")  # zeros before the next start code do not belong to the unit
        if unit and unit[0] & 31 == _SEI and _UUID in unit:
            return (len(unit).to_bytes(length_size, "big") if length_size else b"\0\0\0\1") + unit
    return b""
