"""Find the display order of many pictures at once, by their headers.

The order follows from picture order counts (ITU-T H.264, 8.2.1; ITU-T H.265, 8.3.1), or from the kinds of pictures
(ISO/IEC 13818-2, 6.1.1.11; ISO/IEC 14496-2, 6.1.3.5).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.h264_parameter_sets import Sps, read_sps
from videoloader.indexing.bitstream.hevc_parameter_sets import read_picture_parameters, read_sequence_parameters
from videoloader.indexing.bitstream.nal import H264_IDR, HEVC_IDR, HEVC_IRAP, iterate_nals, nal_length_size
from videoloader.indexing.bitstream.parameter_sets import (
    WITH_PARAMETER_SETS,
    Sets,
    is_set,
    is_slice,
    named_sets,
    sets_of_record,
)
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.stream_info import StreamInfo

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
# The numbers of a parameter set: each one value for all pictures, or one for each.
Told = tuple[int | Numbers, ...]

# Bytes of a slice header that are kept: up to its order count, and more.
SLICE_HEAD = 8
# Bytes to read of a slice header to keep that many: one or two bytes may be emulation prevention.
SLICE_WINDOW = SLICE_HEAD + 2
# Bits of an H.264 slice header that usually contain its first three numbers.
_LOOKED_UP = 12
# For at most this many pictures, the next number is read one by one.
_FEW = 4
# More than the order counts of a coded video sequence.
_LONGEST_SEQUENCE = 1 << 40
_ALL_BITS = (1 << 64) - 1
_REFERENCE, _UNIT_TYPE = 0x60, 31  # in the first byte of H.264's NAL units
_H264_SPS, _HEVC_SPS, _HEVC_PPS = 7, 33, 34  # nal_unit_type
# For the first byte of a NAL unit, whether it is a slice of the base layer.
_SLICES = {
    codec: np.array([is_slice(codec, first) and not (codec == "hevc" and first & 1) for first in range(256)], np.bool_)
    for codec in WITH_PARAMETER_SETS
}
_BY_COUNT, _AS_DECODED = 0, 2  # pic_order_cnt_type of ITU-T H.264, 7.4.2.1.1
_HEVC_LEADING, _HEVC_LAST_DISPOSABLE = (6, 9), 14


def slice_bits(window: npt.NDArray[np.uint8]) -> Bits:
    """Return the first bytes of each row as a number, first byte highest, without emulation prevention.

    Args:
        window: uint8[N, SLICE_WINDOW], overwritten.
    """
    if b"\0\0\3" in window.tobytes():
        zero = window == 0
        guarded = zero[:, :-2] & zero[:, 1:-1] & (window[:, 2:] == 3)
        for row in guarded.any(1).nonzero()[0].tolist():
            plain = window[row].tobytes().replace(b"\0\0\3", b"\0\0").ljust(SLICE_HEAD, b"\0")
            window[row, :SLICE_HEAD] = np.frombuffer(plain, np.uint8, SLICE_HEAD)
    return np.ascontiguousarray(window[:, :SLICE_HEAD]).view(">u8")[:, 0].astype(np.uint64)


def read_ue(bits: Bits) -> tuple[Numbers, Bits]:
    """Read the Exp-Golomb number at the top of each (ITU-T H.264, 9.1); return values, huge if invalid, and rests."""
    first = bits >> np.uint64(64 - _LOOKED_UP)
    values, lengths = _codes(1)
    length = lengths[first]
    return (values[first], bits << length) if np.count_nonzero(length) == len(length) else _compute_ue(bits)


@cache
def _codes(count: int) -> tuple[Numbers, Bits]:
    """Tabulate the last of this many numbers, and the length of all, by their first bits; 0 if they are longer."""
    rest = np.arange(1 << _LOOKED_UP, dtype=np.uint64) << np.uint64(64 - _LOOKED_UP)
    length = np.zeros(len(rest), np.uint64)
    for _ in range(count):
        value, rest = _compute_ue(rest)
        length += np.uint64(2) * np.log2(value + 1).astype(np.uint64) + np.uint64(1)
    return value, np.where(length <= _LOOKED_UP, length, 0).astype(np.uint64)


def _compute_ue(bits: Bits) -> tuple[Numbers, Bits]:
    high = (bits >> np.uint64(32)).astype(np.float64)
    zeros = np.uint64(32) - np.frexp(high)[1].astype(np.uint64)
    fits = zeros < 16
    zeros = np.minimum(zeros, np.uint64(15))
    value = (bits >> (np.uint64(63) - np.uint64(2) * zeros)).astype(np.int64) - 1
    return np.where(fits, value, 1 << 31), bits << (np.uint64(2) * zeros + np.uint64(1))


def skip_h264_head(bits: Bits) -> Bits:
    """Return the bits after the number of the picture parameter set in first slices of H.264."""
    length: Bits = _codes(3)[1][bits >> np.uint64(64 - _LOOKED_UP)]
    if np.count_nonzero(length) == len(length):
        return bits << length
    for _ in range(3):  # first_mb_in_slice, slice_type and pic_parameter_set_id
        _, bits = read_ue(bits)
    return bits


def skip_hevc_head(bits: Bits, is_irap: Flags) -> Bits:
    """Return the bits after the number of the picture parameter set in first slices of HEVC."""
    # first_slice_segment_in_pic_flag, and no_output_of_prior_pics_flag of keyframes.
    return read_ue(bits << (1 + is_irap).astype(np.uint64))[1]


def hevc_kinds(kind: npt.NDArray[Any], second: npt.NDArray[Any]) -> tuple[Flags, Flags, Flags, Flags]:
    """Return from NAL unit headers (IRAP, IDR, disposable, whether later order counts continue from it).

    Args:
        kind: nal_unit_type of each picture.
        second: second byte of the header, which has the temporal layer.
    """
    is_irap = (kind >= HEVC_IRAP.start) & (kind < HEVC_IRAP.stop)
    is_idr = (kind == HEVC_IDR[0]) | (kind == HEVC_IDR[1])
    is_disposable = (kind <= _HEVC_LAST_DISPOSABLE) & (kind % 2 == 0)
    # In the lowest layer, and neither leading nor disposable (ITU-T H.265, 8.3.1: prevTid0Pic).
    is_leading = (kind >= _HEVC_LEADING[0]) & (kind <= _HEVC_LEADING[1])
    return is_irap, is_idr, is_disposable, (second & 7 == 1) & ~is_disposable & ~is_leading


@lru_cache(64)
def h264_numbers(unit: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the number of an H.264 SPS NAL unit, and ``h264_told`` of it. ValueError if it is damaged."""
    sps = read_sps(unit[1:])
    return sps.number, h264_told(sps)


def h264_told(sps: Sps) -> tuple[int, ...]:
    """Return what a sequence parameter set says about slices' bits after the number of the picture parameter set.

    Returns:
        Whether there are order counts, the bits before those, the bits of one, the bits before frame_num, and the bits
        of frame_num.

    Raises:
        ValueError: pictures are counted in the rare way of type 1.
    """
    if sps.order_type not in (_BY_COUNT, _AS_DECODED):
        raise ValueError("order counts of type 1")
    planes = 2 * sps.separate_planes
    before = planes + sps.frame_num_bits + (not sps.frames_only)
    return sps.order_type == _BY_COUNT, before, max(sps.order_bits, 1), planes, sps.frame_num_bits


@lru_cache(64)
def hevc_sequence_numbers(unit: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the same for an HEVC SPS NAL unit: bits of a colour plane, and bits of order counts."""
    sequence = read_sequence_parameters(unit)
    return sequence.number, (2 * sequence.separate_planes, sequence.order_bits)


@lru_cache(64)
def hevc_picture_numbers(unit: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the same for an HEVC PPS NAL unit: extra bits before the slice's type, and before its order count."""
    picture = read_picture_parameters(unit)
    return picture.number, (picture.extra_bits, picture.output_flag)


def h264_places(bits: Bits, restarts: Flags, anchor: Flags, told: Told) -> Numbers:
    """Place pictures of H.264 in display order.

    Args:
        bits: uint64[N], the bits after the number of the picture parameter set in each picture's first slice, in decode
            order.
        restarts: bool[N], IDR pictures.
        anchor: bool[N], reference pictures.
        told: the numbers of ``h264_told``.
    """
    by_count, _, length, *_ = told
    if counted := np.count_nonzero(by_count):
        low = top_bits(h264_count_bits(bits, restarts, told), length)
        places = _whole_counts(low, 1 << length, anchor | restarts)
    if counted < np.size(by_count):
        as_decoded = np.arange(len(bits))
        places = np.where(by_count, places, as_decoded) if counted else as_decoded
    places += restarts.cumsum() * _LONGEST_SEQUENCE
    return places


def h264_count_bits(bits: Bits, restarts: Flags, told: Told) -> Bits:
    """Return the bits from the order count on, or from where it would be. ``h264_places`` explains the arguments."""
    bits = bits << np.uint64(told[1])
    starts = restarts.nonzero()[0]
    if len(starts) > _FEW:
        bits[starts] = read_ue(bits[starts])[1]  # idr_pic_id
    else:
        for start in starts.tolist():
            value = int(bits[start])
            bits[start] = value << 2 * (64 - value.bit_length()) + 1 & _ALL_BITS
    return bits


def numbers_leap(numbers: Numbers, size: int | Numbers, begins: Flags, restarts: Flags, anchor: Flags) -> Flags:
    """Find H.264 pictures whose number leaps from that of the picture, or of the reference picture, before them.

    A number leaps if it is neither the same nor one more, as in ``FrameNumGaps``.

    Args:
        numbers: int64[N], frame_num of each picture, in decode order.
        size: number of values that a frame_num can have.
        begins: bool[N], pictures at which packets begin that follow no others. They are not compared with those before.
        restarts, anchor: as in ``h264_places``.
    """
    before = np.arange(len(numbers)) - 1
    last = np.maximum.accumulate((before + 1) * (anchor | begins))[before]
    leaps: Flags = np.maximum((numbers - numbers[before]) % size, (numbers - numbers[last]) % size) > 1
    return leaps & ~(begins | restarts)


def hevc_places(bits: Bits, restarts: Flags, anchor: Flags, told: Told, of_picture: Told) -> Numbers:
    """Place pictures of HEVC; ``told`` and ``of_picture`` come from its two kinds of parameter sets."""
    (planes, length), (extra, output) = told, of_picture
    _, bits = read_ue(bits << np.uint64(extra))
    # IDR pictures have no count; it counts as zero.
    low = np.where(restarts, 0, top_bits(bits << np.uint64(planes + output), length))
    places = _whole_counts(low, 1 << length, anchor | restarts)
    places += restarts.cumsum() * _LONGEST_SEQUENCE
    return places


def places_by_kind(anchor: Flags) -> Numbers:
    """Place pictures of MPEG: B pictures (not ``anchor``) are shown at once, others when the next other comes."""
    places = np.arange(len(anchor))
    places[anchor] = np.append(places[anchor][1:], len(anchor))
    return places


def _whole_counts(low: Numbers, size: int | Numbers, anchor: Flags) -> Numbers:
    """Restore order counts, comparable within a coded video sequence, from their low bits.

    Args:
        low: int64[N], the low bits.
        size: number of values of the low bits.
        anchor: whether the counts of later pictures continue from each picture.
    """
    last = np.maximum.accumulate(np.arange(len(low)) * anchor)[:-1]
    step = low.copy()
    step[1:] -= low[last]
    # From half the range below up to half the range above.
    step += (size - 2 * step) // (2 * size) * size
    step[1:] += (step * anchor).cumsum()[last]
    return step


def whole_count(low: int, size: int, anchor: int) -> int:
    """Restore one order count: the one with these low bits that is nearest to the anchor's.

    Source: ITU-T H.264, 8.2.1.1; ITU-T H.265, 8.3.1.
    """
    step = (low - anchor) % size
    return anchor + (step if step <= size // 2 else step - size)


def top_bits(bits: Bits, length: int | Numbers) -> Numbers:
    """Return the numbers in this many bits at the top of each."""
    return (bits >> np.uint64(64 - length)).astype(np.int64)


def without_slice(codec: str, heads: Bytes) -> list[int]:
    """Return the rows (first bytes of packets) that do not begin with a slice; see ``places_of_packets``."""
    return [*(~_SLICES[codec][heads[:, 0]]).nonzero()[0].tolist()]


def places_of_packets(stream: StreamInfo, starts: Bytes, payload: Callable[[int], bytes | memoryview]) -> Numbers:
    """Place pictures of H.264 (whole frames only) or HEVC in display order, by the first bytes of their packets.

    Args:
        stream: the stream, with one configuration record, that of all these packets.
        starts: uint8[N, L + SLICE_WINDOW + 2], first bytes of each packet, L being ``nal_length_size``; overwritten.
        payload: returns the beginning of a packet that does not begin with a slice.

    Raises:
        ValueError: this simple way cannot determine it.
    """
    codec, record = stream.codec, stream.codec_configs[0]
    size, picture = nal_length_size(codec, record), picture_format(stream)
    if picture is None or (codec == "h264" and not picture.frames_only):
        raise ValueError("fields, perhaps")
    heads, sets = starts[:, size:], sets_of_record(codec, record)
    for number in without_slice(codec, heads):
        heads[number] = _first_slice(codec, sets, size, payload(number), heads.shape[1])
    if codec == "h264":
        bits = skip_h264_head(slice_bits(heads[:, 1 : 1 + SLICE_WINDOW].copy()))
        first, told = heads[:, 0], _told(sets, _H264_SPS, h264_numbers)
        return h264_places(bits, first & _UNIT_TYPE == H264_IDR, first & _REFERENCE != 0, told)
    if (heads[:, 1] >> 3).any():
        raise ValueError("pictures of several layers")
    is_irap, is_idr, _, anchor = hevc_kinds(heads[:, 0] >> 1 & 63, heads[:, 1])
    bits = skip_hevc_head(slice_bits(heads[:, 2 : 2 + SLICE_WINDOW].copy()), is_irap)
    of_picture = _told(sets, _HEVC_PPS, hevc_picture_numbers)
    return hevc_places(bits, is_idr, anchor, _told(sets, _HEVC_SPS, hevc_sequence_numbers), of_picture)


def _first_slice(codec: str, sets: Sets, length_size: int, payload: bytes | memoryview, size: int) -> Bytes:
    """Return the first bytes of a packet's first slice.

    Args:
        codec: ``"h264"`` or ``"hevc"``.
        sets: parameter sets in force before the packet.
        length_size: bytes of the length before each unit; see ``nal_length_size``.
        payload: the packet, or its beginning.
        size: number of bytes wanted.

    Raises:
        ValueError: there is no slice, or other parameter sets come before it.
    """
    for start, stop in iterate_nals(payload, length_size):
        if is_slice(codec, payload[start]):
            return np.frombuffer(bytes(payload[start : min(stop, start + size)]).ljust(size, b"\0"), np.uint8)
        if (
            is_set(codec, payload[start])
            and not named_sets(codec, [bytes(payload[start:stop])]).items() <= sets.items()
        ):
            raise ValueError("parameter sets that change")
    raise ValueError("a packet without a slice")


def _told(sets: Sets, kind: int, read: Callable[[bytes], tuple[int, tuple[int, ...]]]) -> Told:
    """Return the value that all parameter sets of a kind give. ValueError if there is none, or if they differ."""
    told = {read(unit)[1] for (its_kind, _), unit in sets.items() if its_kind == kind}
    if len(told) != 1:
        raise ValueError("no parameter sets that tell at a glance")
    return told.pop()
