"""Whether the times of a transport stream order its pictures as their own headers do, asked of all pictures at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.h264_parameter_sets import read_sps
from videoloader.indexing.bitstream.hevc_parameter_sets import read_picture_parameters, read_sequence_parameters
from videoloader.indexing.mpegts.access_units import AccessUnits, read_ue
from videoloader.indexing.mpegts.stream import nal_type

Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]

_H264_SPS, _HEVC_SPS, _HEVC_PPS = 7, 33, 34
# More than the order counts of a coded video sequence.
_LONGEST_SEQUENCE = 1 << 40
_BY_COUNT, _AS_DECODED = 0, 2  # pic_order_cnt_type of ITU-T H.264, 7.4.2.1.1


def comes_in_order(codec: str, units: AccessUnits, order: Numbers) -> bool:
    """Whether decoders are known to give out a stream's pictures in this order.

    Args:
        codec: ``h264``, ``hevc`` or ``mpeg2video``.
        units: of the whole stream.
        order: int64[N], the units with pictures, in the order of their times.
    """
    shown = (units.picture >= 0).nonzero()[0]
    anchor = units.anchor[shown]
    if codec == "mpeg2video":
        # B pictures are shown at once, others when the next such picture comes (ISO/IEC 13818-2, 6.1.1.11).
        place = np.arange(len(shown))
        place[anchor] = np.append(place[anchor][1:], len(shown))
    else:
        restarts = units.restarts[shown]
        try:
            place = (_h264_counts if codec == "h264" else _hevc_counts)(units, shown, anchor | restarts)
        except ValueError:
            return False
        place += restarts.cumsum() * _LONGEST_SEQUENCE
    places = np.empty(len(units.picture), np.int64)
    places[shown] = place
    in_order = places[order]
    return bool((in_order[1:] > in_order[:-1]).all())


def _whole_counts(low: Numbers, size: Numbers | int, anchor: npt.NDArray[np.bool_]) -> Numbers:
    """Order counts, comparable within a coded video sequence, from their low bits (ITU-T H.264, 8.2.1.1; H.265, 8.3.1).

    Args:
        low: int64[N], the low bits.
        size: the number of their values.
        anchor: whether the counts of later pictures go on from each.
    """
    last = np.maximum.accumulate(np.where(anchor, np.arange(len(low)), 0))
    step = low.copy()
    step[1:] -= low[last[:-1]]
    step += size * (2 * step <= -size)
    step -= size * (2 * step > size)
    whole = np.where(anchor, step, 0).cumsum()
    step[1:] += whole[last[:-1]]
    return step


def _h264_counts(units: AccessUnits, shown: Numbers, anchor: npt.NDArray[np.bool_]) -> Numbers:
    """Picture order counts, but for their beginning.

    Raises:
        ValueError: they cannot be told: they are counted in the rare way of type 1, or it is not clear which set tells.
    """
    numbers = _in_force("h264", _H264_SPS, units, shown, _read_h264)
    as_decoded = np.arange(len(shown))
    by_count, before, length = numbers
    if not np.any(by_count):
        return as_decoded
    bits = units.slice_bits[shown] << _bits(before)
    restarts = units.restarts[shown].nonzero()[0]
    bits[restarts] = read_ue(bits[restarts])[1]  # idr_pic_id
    counts = _whole_counts(_top(bits, length), 1 << length, anchor)
    return counts if np.all(by_count) else np.where(by_count, counts, as_decoded)


@lru_cache(64)
def _read_h264(header: bytes) -> tuple[int, tuple[int, ...]]:
    """Number of a sequence parameter set; whether slices hold order counts, behind how many bits, and how long."""
    sps = read_sps(header[4:])
    if sps.order_type not in (_BY_COUNT, _AS_DECODED):
        raise ValueError("order counts of type 1")
    before = sps.frame_num_bits + 2 * sps.separate_planes + (not sps.frames_only)
    return sps.number, (sps.order_type == _BY_COUNT, before, max(sps.order_bits, 1))


def _hevc_counts(units: AccessUnits, shown: Numbers, anchor: npt.NDArray[np.bool_]) -> Numbers:
    planes, length = _in_force("hevc", _HEVC_SPS, units, shown, _read_hevc_sequence)
    (extra,) = _in_force("hevc", _HEVC_PPS, units, shown, _read_hevc_picture)
    _, bits = read_ue(units.slice_bits[shown] << _bits(extra))
    # IDR pictures have no count: theirs is zero.
    low = np.where(units.restarts[shown], 0, _top(bits << _bits(planes), length))
    return _whole_counts(low, 1 << length, anchor)


@lru_cache(64)
def _read_hevc_sequence(header: bytes) -> tuple[int, tuple[int, ...]]:
    number, sequence = read_sequence_parameters(header[3:])
    return number, (2 * sequence.separate_planes, sequence.order_bits)


@lru_cache(64)
def _read_hevc_picture(header: bytes) -> tuple[int, tuple[int, ...]]:
    number, picture = read_picture_parameters(header[3:])
    return number, (picture.extra_bits,)


def _in_force(
    codec: str, kind: int, units: AccessUnits, shown: Numbers, read: Callable[[bytes], tuple[int, tuple[int, ...]]]
) -> tuple[Numbers, ...]:
    """What the parameter set before each picture tells, the first one before there is any: one number, or int64[N].

    Raises:
        ValueError: there is none, one cannot be read, or several differ at the same time.
    """
    known = {header: read(header) for header in set(units.headers.values()) if nal_type(codec, header) == kind}
    told = {numbers for _, numbers in known.values()}
    if len(told) == 1:
        return tuple(np.array(each) for each in told.pop())
    if not told or len({number for number, _ in known.values()}) > 1:
        raise ValueError("no parameter sets that tell at a glance")
    positions = [at for at, header in units.headers.items() if header in known]
    rows = np.array([known[units.headers[at]][1] for at in positions], np.int64)
    return tuple(rows[np.maximum(np.searchsorted(positions, units.picture[shown]) - 1, 0)].T)


def _top(bits: Bits, length: Numbers) -> Numbers:
    return (bits >> _bits(64 - length)).astype(np.int64)


def _bits(count: Numbers) -> Bits:
    """How far numbers of 64 bits are moved, as numpy takes it."""
    return count.astype(np.uint64)
