"""Recognise packets that lost a part, of which libavcodec silently makes a picture, by their bytes alone."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import partial

from videoloader.indexing.bitstream.bits import TURNED_BYTES
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

# slice_start_code of ISO/IEC 13818-2, table 6-1.
_MPEG2_SLICE = re.compile(rb"\0\0\x01[\x01-\xaf]")
_MPEG2_PICTURE_OR_SLICE = re.compile(rb"\0\0\x01([\0-\xaf])")
_ZEROS = b"\0\0\0"
# FFV1 (RFC 9043): bytes after each slice with and without a checksum (4.9); and initial values of checksums (the RFC's,
# and libavcodec's 0x79408C7A) with the bits reversed, since zlib begins with the lowest.
_SIZE_AND_CHECKSUM, _SIZE_ALONE = 8, 3
_CHECKSUM_STARTS = (0, 0x5E31029E)
_CHECKED_AT_ONCE = 1 << 16  # bytes that stay in the processor's cache


def lost_data_check(codec: str, config: bytes) -> Callable[[bytes | memoryview], bool] | None:
    """Return a test of whether a part of a packet is certainly lost; None if libavcodec marks or refuses such packets.

    MPEG-1 and MPEG-2: there is no slice, so the picture would be what was in memory. HEVC: there are three consecutive
    zero bytes within a NAL unit, which no encoder writes (ITU-T H.265, 7.4.2.1). libavcodec decodes them, and if that
    ends early, leaves the rest of the picture as it is in memory. H.264: some slices are referred to and others are
    not, so they belong to several pictures (ITU-T H.264, 7.4.1), of which libavcodec finishes only one. FFV1: a slice
    fails its checksum. libavcodec shows the previous picture in its place if there was one, and otherwise whatever
    comes of it.

    Args:
        codec: codec of the stream.
        config: configuration record of the packets.
    """
    if codec in ("mpeg1video", "mpeg2video"):
        return _lacks_slices
    if codec == "hevc":
        return partial(_holds_zeros, nal_length_size("hevc", config))
    if codec == "h264":
        return partial(_mixes_pictures, nal_length_size("h264", config))
    if codec == "ffv1" and len(config) > 4:
        # From version 3 on, records end with a checksum (4.3.2), and slices may.
        start = next((start for start in _CHECKSUM_STARTS if _keeps_checksum(config, start)), None)
        return None if start is None else partial(_breaks_checksum, start)
    return None


def _lacks_slices(payload: bytes | memoryview) -> bool:
    return _MPEG2_SLICE.search(payload) is None


def _holds_zeros(length_size: int, payload: bytes | memoryview) -> bool:
    data = bytes(payload)
    if _ZEROS not in data:
        return False
    # They may also occur between two units, in a length or before a start code.
    for start, stop in iterate_nals(data, length_size):
        unit = data[start:stop]
        if _ZEROS in (unit if length_size else unit.rstrip(b"\0")):
            return True
    return False


def _mixes_pictures(length_size: int, payload: bytes | memoryview) -> bool:
    if 0 < length_size < len(payload) == length_size + int.from_bytes(payload[:length_size], "big"):
        return False  # usually, there is one unit
    units = (payload[start] for start, _ in iterate_nals(payload, length_size))
    return len({unit & 0x60 == 0 for unit in units if 1 <= unit & 31 <= 5}) > 1


def _breaks_checksum(start: int, payload: bytes | memoryview) -> bool:
    """Whether a slice of FFV1 fails its checksum, or slices do not have the length they state."""
    slices = _slices(payload, _SIZE_AND_CHECKSUM)
    if slices is None:
        return _slices(payload, _SIZE_ALONE) is None
    return not all(_keeps_checksum(each, start) for each in slices)


def _slices(payload: bytes | memoryview, behind: int) -> list[memoryview] | None:
    """Return the slices of a packet of FFV1; None if a slice does not state its size at this distance from its end."""
    data, stop, slices = memoryview(payload), len(payload), list[memoryview]()
    while stop:
        first = stop - behind - int.from_bytes(data[stop - behind : stop - behind + 3], "big")
        if first < 0:
            return None
        slices.append(data[first:stop])
        stop = first
    return slices


def _keeps_checksum(data: bytes | memoryview, start: int) -> bool:
    """Whether FFV1's CRC over data and checksum is zero (RFC 9043, 4.9.3)."""
    checksum = begin = start ^ 0xFFFFFFFF  # zlib does the same inversion
    for at in range(0, len(data), _CHECKED_AT_ONCE):
        checksum = zlib.crc32(bytes(data[at : at + _CHECKED_AT_ONCE]).translate(TURNED_BYTES), checksum)
    return checksum == begin


def has_a_slice_in_each_row(payload: bytes | memoryview, height: int) -> bool:
    """Whether each picture of an MPEG-1 or MPEG-2 packet has exactly one slice in each row of macroblocks.

    Encoders need not cut pictures in this way (ISO/IEC 13818-2, 6.1.2), but usually do.

    Args:
        payload: one packet.
        height: height of a frame in pixels.
    """
    pictures: list[bytearray] = []
    for code in _MPEG2_PICTURE_OR_SLICE.findall(payload):
        if code == b"\0":
            pictures.append(bytearray())
        elif pictures:
            pictures[-1] += code
    field_rows = -(-height // 32)
    possible = (field_rows,) if len(pictures) == 2 else (-(-height // 16), 2 * field_rows)
    return bool(pictures) and all(
        any(picture == bytes(range(1, rows + 1)) for rows in possible) for picture in pictures
    )
