"""Whether the times of a transport stream order its pictures as their own headers do, asked of all pictures at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.h264_parameter_sets import read_sps
from videoloader.indexing.bitstream.hevc_parameter_sets import read_picture_parameters, read_sequence_parameters
from videoloader.indexing.mpegts.access_units import AccessUnits, read_ue
from videoloader.indexing.mpegts.stream import bare, nal_type

Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]

_H264_SPS, _HEVC_SPS, _HEVC_PPS = 7, 33, 34
_MOST_PACKETS = 1 << 62
_BY_COUNT, _AS_DECODED = 0, 2  # pic_order_cnt_type of ITU-T H.264, 7.4.2.1.1


class _H264Numbers(NamedTuple):
    """What of a sequence parameter set tells where slice headers hold their order count."""

    frame_num_bits: int
    separate_planes: int
    may_be_fields: int
    order_type: int
    order_bits: int


def comes_in_order(codec: str, units: AccessUnits, pts: Numbers) -> bool:
    """Whether decoders give out a stream's pictures in the order of these times.

    True as well where that cannot be told: a rare way of counting H.264's pictures.

    Args:
        codec: ``h264``, ``hevc`` or ``mpeg2video``.
        units: of the whole stream.
        pts: int64[A], times of the units.
    """
    shown = (units.picture >= 0).nonzero()[0]
    anchor, restarts = units.anchor[shown], units.restarts[shown]
    numbers = np.arange(len(shown))
    if codec == "mpeg2video":
        # B pictures are shown at once, others when the next such picture comes (ISO/IEC 13818-2, 6.1.1.11).
        following = np.append(np.where(anchor, numbers, len(numbers))[1:], len(numbers))
        order = np.where(anchor, np.minimum.accumulate(following[::-1])[::-1], numbers)
    else:
        try:
            read = (_h264_low_bits if codec == "h264" else _hevc_low_bits)(units, shown)
        except ValueError:
            return False
        if read is None:
            return True
        order = _whole_counts(*read, anchor | restarts)
    times = pts[shown][np.lexsort((order, restarts.cumsum()))]
    return bool((times[1:] > times[:-1]).all())


def _whole_counts(low: Numbers, size: Numbers, anchor: npt.NDArray[np.bool_]) -> Numbers:
    """Order counts, comparable within a coded video sequence, from their low bits (ITU-T H.264, 8.2.1.1; H.265, 8.3.1).

    Args:
        low: int64[N], the low bits.
        size: int64[N], the number of their values.
        anchor: whether the counts of later pictures go on from each.
    """
    last = np.maximum.accumulate(np.where(anchor, np.arange(len(low)), 0))
    before = np.append(0, last[:-1])
    step = low - low[before]
    step += np.where(2 * step <= -size, size, 0) - np.where(2 * step > size, size, 0)
    whole: Numbers = np.where(anchor, step, 0).cumsum()[before] + step
    return whole


def _h264_low_bits(units: AccessUnits, shown: Numbers) -> tuple[Numbers, Numbers] | None:
    """(the low bits of order counts, the number of their values); None where counts have none.

    Raises:
        ValueError: it cannot be told where they stand.
    """

    def numbers(header: bytes) -> tuple[int, _H264Numbers]:
        sps = read_sps(header[4:])
        own = _H264Numbers(
            sps.frame_num_bits, 2 * sps.separate_planes, not sps.frames_only, sps.order_type, sps.order_bits
        )
        return sps.number, own

    frame_num, planes, field, kind, length = _in_force("h264", _H264_SPS, units, shown, numbers)
    as_decoded = kind == _AS_DECODED
    if not (as_decoded | (kind == _BY_COUNT)).all():
        return None
    bits = units.slice_bits[shown] << (frame_num + planes + field).astype(np.uint64)
    bits = np.where(units.restarts[shown], read_ue(bits)[1], bits)  # idr_pic_id
    low = np.where(as_decoded, np.arange(len(shown)), _top(bits, np.maximum(length, 1)))
    return low, np.where(as_decoded, _MOST_PACKETS, 1 << length)


def _hevc_low_bits(units: AccessUnits, shown: Numbers) -> tuple[Numbers, Numbers]:
    def of_sequence(header: bytes) -> tuple[int, tuple[int, int]]:
        number, sequence = read_sequence_parameters(header[3:])
        return number, (2 * sequence.separate_planes, sequence.order_bits)

    def of_picture(header: bytes) -> tuple[int, tuple[int]]:
        number, picture = read_picture_parameters(header[3:])
        return number, (picture.extra_bits,)

    planes, length = _in_force("hevc", _HEVC_SPS, units, shown, of_sequence)
    (extra,) = _in_force("hevc", _HEVC_PPS, units, shown, of_picture)
    _, bits = read_ue(units.slice_bits[shown] << extra.astype(np.uint64))
    # IDR pictures have no count: theirs is zero.
    low = np.where(units.restarts[shown], 0, _top(bits << planes.astype(np.uint64), length))
    return low, 1 << length


def _in_force(
    codec: str, kind: int, units: AccessUnits, shown: Numbers, read: Callable[[bytes], tuple[int, tuple[int, ...]]]
) -> Numbers:
    """int64[numbers, N]: what the parameter set before each picture tells, the first one before there is any.

    Raises:
        ValueError: there is none, one cannot be read, or several differ at the same time.
    """
    headers = {at: bare(header) for at, header in units.headers.items() if nal_type(codec, header) == kind}
    known = {header: read(header) for header in set(headers.values())}
    told = np.array([known[header][1] for header in headers.values()], np.int64)
    if not len(told) or (len({number for number, _ in known.values()}) > 1 and (told != told[0]).any()):
        raise ValueError("no parameter sets that tell at a glance")
    return told[np.maximum(np.searchsorted([*headers], units.picture[shown]) - 1, 0)].T


def _top(bits: Bits, length: Numbers) -> Numbers:
    return (bits >> (64 - length).astype(np.uint64)).astype(np.int64)
