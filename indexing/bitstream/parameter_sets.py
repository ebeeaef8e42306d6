"""Find what a decoder keeps from packet to packet besides pictures: parameter sets, and MPEG's headers.

H.264 (ITU-T H.264, 7.4.1.2.1) and HEVC (ITU-T H.265, 7.4.2.4.2) identify a set by its kind and number; a later set
replaces an earlier one of the same kind and number. MPEG-1, 2 and 4 have one header, which each later one replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct
from types import MappingProxyType

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.headers_before import split_headers
from videoloader.indexing.bitstream.hevc_parameter_sets import read_profile_tier_level
from videoloader.indexing.bitstream.mpeg2 import is_progressive, read_sequence_header
from videoloader.indexing.bitstream.mpeg4_headers import find_layer
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets

# Kind and number of a set.
SetName = tuple[int, int]
Sets = Mapping[SetName, bytes]

WITH_PARAMETER_SETS = ("h264", "hevc")
# The start codes that may begin the headers of a sequence (their last bytes), and what follows the headers: a group of
# pictures or a picture.
_SEQUENCE = {
    **dict.fromkeys(("mpeg1video", "mpeg2video"), (b"\xb3", (b"\0\0\1\0", b"\0\0\1\xb8"))),
    "mpeg4": (bytes(range(0x30)) + b"\xb0\xb2\xb5", (b"\0\0\1\xb3", b"\0\0\1\xb6")),
}
WITH_HEADERS = (*WITH_PARAMETER_SETS, *_SEQUENCE)
_SPS, _PPS, _SPS_EXTENSION, _SUBSET_SPS = 7, 8, 13, 15  # nal_unit_type of ITU-T H.264, table 7-1
_HEVC_VPS, _HEVC_SPS, _HEVC_PPS = 32, 33, 34  # nal_unit_type of ITU-T H.265, table 7-1
# The numbers of sets in an avcC record have five and eight bits (ISO/IEC 14496-15, 5.3.3.1).
_MOST_SPS, _MOST_PPS = 31, 255
_HVCC_HEAD = 22
# MPEG's headers are within these first bytes of a packet.
_LONGEST_HEADERS = 4096
_OF_SEQUENCE: SetName = (0, 0)


def sets_in_packet(codec: str, length_size: int, payload: bytes | memoryview) -> list[bytes]:
    """Return the parameter sets in a packet of H.264 or HEVC, with header bytes; usually none.

    If units have start codes, only sets before the first slice count: a set after a slice begins another packet.

    Args:
        codec: one of ``WITH_PARAMETER_SETS``.
        length_size: result of ``nal_length_size``.
        payload: bytes of the packet.
    """
    if length_size:
        found: list[bytes] = []
        kinds, size = _SETS[codec], len(payload)
        last = size - length_size - 1
        position = 0
        if length_size == 4:
            while position <= last:
                length, header = LENGTH_AND_HEADER(payload, position)
                start, position = position + 4, position + 4 + length
                if kinds[header] and start < position <= size:
                    found.append(bytes(payload[start:position]))
            return found
        while position <= last:
            start = position + length_size
            position = start + int.from_bytes(payload[position:start], "big")
            if kinds[payload[start]] and start < position <= size:
                found.append(bytes(payload[start:position]))
        return found
    return leading_units(codec, payload, _SETS[codec])


def is_set(codec: str, first: int) -> bool:
    """Whether a NAL unit of H.264 or HEVC is a parameter set, by the first byte of its header."""
    if codec == "h264":
        return first & 31 in (_SPS, _PPS, _SPS_EXTENSION, _SUBSET_SPS)
    return _HEVC_VPS <= first >> 1 & 63 <= _HEVC_PPS


def is_sequence_set(codec: str, first: int) -> bool:
    """Whether a NAL unit of H.264 or HEVC is a sequence parameter set, by the first byte of its header."""
    return first & 31 == _SPS if codec == "h264" else first >> 1 & 63 == _HEVC_SPS


def first_sequence_set(codec: str, record: bytes) -> bytes | None:
    """Return the first sequence parameter set in a configuration record of H.264 or HEVC, with header bytes."""
    return next((unit for unit in parameter_sets(codec, record) if unit and is_sequence_set(codec, unit[0])), None)


def is_slice(codec: str, first: int) -> bool:
    """Whether a NAL unit of H.264 or HEVC is part of a picture, by the first byte of its header."""
    return 1 <= first & 31 <= 5 if codec == "h264" else first & 0x7E < 64


# For the first byte of a NAL unit's header, whether it is part of a picture, or a set. Used for each packet.
SLICES = {codec: bytes(is_slice(codec, first) for first in range(256)) for codec in WITH_PARAMETER_SETS}
_SETS = {codec: bytes(is_set(codec, first) for first in range(256)) for codec in WITH_PARAMETER_SETS}
LENGTH_AND_HEADER = Struct(">IB").unpack_from


def leading_units(codec: str, payload: bytes | memoryview, kinds: bytes) -> list[bytes]:
    """Return the units of some kinds (by first byte) before the first slice of a packet with start codes."""
    head, slices = 512, SLICES[codec]
    while True:
        data = bytes(payload[:head])
        units: list[bytes] = []
        start = data.find(b"\0\0\1") + 3
        while 2 < start < len(data):
            first = data[start]
            if slices[first]:
                return units
            following = data.find(b"\0\0\1", start)
            if following < 0 and len(data) < len(payload):
                break
            if kinds[first]:
                units.append(data[start : following if following >= 0 else len(data)].rstrip(b"\0"))
            start = following + 3
        if len(data) == len(payload):
            return units
        head *= 8


def may_have_sequence_headers(payload: bytes | memoryview) -> bool:
    """Whether a packet of MPEG-1, 2 or 4 may have such headers. Most begin directly with their picture."""
    return len(payload) > 3 and payload[3] not in (0, 0xB6)


def coded_size(codec: str, headers: bytes) -> tuple[int, int]:
    """Return the (width, height) in the sequence headers of MPEG-1, 2 or 4; (0, 0) if they have none."""
    if codec == "mpeg4":
        layer = find_layer(headers)
        return (layer.width, layer.height) if layer else (0, 0)
    if headers[:4] != b"\0\0\1\xb3" or len(headers) < 7:
        return 0, 0
    # MPEG-2's extension has the highest bits of sizes above 4095; for most streams it changes nothing.
    sequence = read_sequence_header(headers)
    if sequence is not None:
        return sequence.width, sequence.height
    return headers[4] << 4 | headers[5] >> 4, (headers[5] & 15) << 8 | headers[6]


def memory_size(codec: str, headers: bytes) -> tuple[int, int, int]:
    """Return the (width, height, rows in memory) of pictures. Decoders of MPEG-1, 2 and 4 begin anew with others."""
    width, height = coded_size(codec, headers)
    # A picture of two fields has an even number of rows of macroblocks (ISO/IEC 13818-2, 6.3.3).
    multiple = 32 if codec == "mpeg2video" and not is_progressive(headers) else 16
    return width, height, -(-height // multiple) * multiple


def sequence_headers(codec: str, payload: bytes | memoryview) -> bytes:
    """Return the headers of a sequence in a packet or a record of MPEG-1, 2 or 4; empty if there are none."""
    data = bytes(payload[:_LONGEST_HEADERS])
    ends = [data.find(code) for code in _SEQUENCE[codec][1]]
    end = min(ends) if min(ends) > 0 else max(ends)
    return _headers_before(codec, data[: max(end, 0)]) or _headers_in(codec, data)


def _headers_in(codec: str, data: bytes) -> bytes:
    opening, closing = _SEQUENCE[codec]
    begin = -1
    for start, _ in iterate_nals(data, 0):
        if begin < 0:
            begin = start - 3 if data[start] in opening else -1
        elif data[start - 3 : start + 1] in closing:
            return data[begin : start - 3]
    return data[begin:] if begin >= 0 else b""


_headers_before = lru_cache(64)(_headers_in)  # many writers repeat the same headers before every keyframe


@lru_cache(1024)
def sets_of_record(codec: str, record: bytes) -> Sets:
    """Return the sets of a decoder that was opened with a configuration record.

    Args:
        codec: one of ``WITH_HEADERS``.
        record: avcC, hvcC, or headers with start codes.
    """
    if codec not in WITH_PARAMETER_SETS:
        headers = split_headers(record).record() if codec == "mpeg4" else sequence_headers(codec, record)
        return MappingProxyType({_OF_SEQUENCE: headers} if headers else {})
    return named_sets(codec, parameter_sets(codec, record))


def named_sets(codec: str, units: Iterable[bytes]) -> Sets:
    """Return sets by kind and number; of several with the same ones, the last."""
    if codec not in WITH_PARAMETER_SETS:
        last = [unit for unit in units if unit][-1:]
        return MappingProxyType(dict.fromkeys((_OF_SEQUENCE,), last[0]) if last else {})
    units = (unit.rstrip(b"\0") for unit in units)
    return MappingProxyType({_name(codec, unit): unit for unit in units if unit and is_set(codec, unit[0])})


@lru_cache(1024)
def _name(codec: str, unit: bytes) -> SetName:
    """Return the kind and number of a set; one that cannot be read gets a number that no other has."""
    try:
        if codec == "h264":
            kind = unit[0] & 31
            # profile_idc, constraint flags and level_idc come before the number of an SPS (7.3.2.1.1).
            return kind, BitReader(unit[4:12] if kind in (_SPS, _SUBSET_SPS) else unit[1:9]).ue()
        # Sets of other layers (nuh_layer_id) have numbers of their own.
        kind = (unit[0] >> 1 & 63) | (unit[0] & 1) << 11 | unit[1] >> 3 << 6
        if unit[0] >> 1 & 63 == _HEVC_VPS:
            return kind, unit[2] >> 4
        if unit[0] >> 1 & 63 == _HEVC_PPS:
            return kind, BitReader(unit[2:10]).ue()
        bits = BitReader(unit[2:])
        bits.u(4)
        layers = bits.u(3)
        bits.u(1)
        read_profile_tier_level(bits, layers)
        return kind, bits.ue()
    except (ValueError, IndexError):
        return -1, hash(unit)


def record_with_sets(codec: str, record: bytes, sets: Sets) -> bytes:
    """Make a configuration record that gives a decoder exactly these sets.

    Args:
        codec: one of ``WITH_HEADERS``.
        record: record of the stream, which says whether units have lengths or start codes.
        sets: all sets in force.

    Raises:
        ValueError: a record has no room for that many sets, or for a set of that length.
    """
    if codec == "mpeg4":
        return sets.get(_OF_SEQUENCE, record)  # a decoder skips all layers in one record but the first
    if codec not in WITH_PARAMETER_SETS:
        return record + sets.get(_OF_SEQUENCE, b"")
    if max(map(len, sets.values()), default=0) > 0xFFFF:
        raise ValueError("a parameter set is longer than a record can say")
    if not nal_length_size(codec, record):
        kinds = sorted(sets, key=lambda name: name[0])
        return b"".join(b"\0\0\0\1" + sets[name] for name in kinds)
    if codec == "hevc":
        return _hvcc(record, sets)
    sps = [unit for (kind, _), unit in sets.items() if kind == _SPS]
    pps = [unit for (kind, _), unit in sets.items() if kind != _SPS]
    if len(sps) > _MOST_SPS or len(pps) > _MOST_PPS:
        raise ValueError("more parameter sets than a record can hold")
    head = record[:5] + bytes([0xE0 | len(sps)])
    return head + _with_lengths(sps) + bytes([len(pps)]) + _with_lengths(pps)


def _hvcc(record: bytes, sets: Sets) -> bytes:
    """Make an HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1) with an array for each kind of set."""
    kinds = sorted({unit[0] >> 1 & 63 for unit in sets.values()})
    arrays = []
    for kind in kinds:
        units = [unit for unit in sets.values() if unit[0] >> 1 & 63 == kind]
        arrays.append(bytes([kind]) + len(units).to_bytes(2, "big") + _with_lengths(units))
    return record[:_HVCC_HEAD] + bytes([len(kinds)]) + b"".join(arrays)


def _with_lengths(units: list[bytes]) -> bytes:
    return b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)


def merged_sets(sets: Sets, later: Sets) -> Sets:
    """Return the sets in force once later ones have come."""
    return MappingProxyType({**sets, **later}) if later else sets


def units_of(codec: str, record: bytes, payload: bytes | memoryview) -> list[bytes]:
    """Return the sets in a packet of any codec; see ``sets_in_packet`` and ``sequence_headers``."""
    if codec in WITH_PARAMETER_SETS:
        return sets_in_packet(codec, nal_length_size(codec, record), payload)
    headers = sequence_headers(codec, payload)
    return [headers] if headers else []


def headers_with_start_codes(codec: str, payload: bytes) -> bytes:
    """Return the sets or headers of a stream's first packet, in place of a configuration record that is missing."""
    prefix = b"\0\0\1" if codec in WITH_PARAMETER_SETS else b""
    return b"".join(prefix + unit for unit in units_of(codec, b"", payload))
