"""Check the order of a transport stream's times against its pictures' own headers, for all pictures at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.bitstream.picture_counts import (
    Told,
    h264_numbers,
    h264_places,
    hevc_picture_numbers,
    hevc_places,
    hevc_sequence_numbers,
    numbers_leap,
    places_by_kind,
    top_bits,
)
from videoloader.indexing.mpegts.access_units import AccessUnits
from videoloader.indexing.mpegts.stream import nal_type

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_H264_SPS, _HEVC_SPS, _HEVC_PPS = 7, 33, 34


def comes_in_order(codec: str, units: AccessUnits, order: Numbers) -> bool:
    """Whether decoders certainly output a stream's pictures in this order.

    Args:
        codec: ``h264``, ``hevc`` or ``mpeg2video``.
        units: units of the whole stream.
        order: int64[N], the units with pictures, in the order of their times.
    """
    shown = (units.picture >= 0).nonzero()[0]
    bits, restarts, anchor = units.slice_bits[shown], units.restarts[shown], units.anchor[shown]
    try:
        if codec == "h264":
            place = h264_places(bits, restarts, anchor, _in_force("h264", _H264_SPS, units, shown, h264_numbers))
        elif codec == "hevc":
            told = _in_force("hevc", _HEVC_SPS, units, shown, hevc_sequence_numbers)
            of_picture = _in_force("hevc", _HEVC_PPS, units, shown, hevc_picture_numbers)
            place = hevc_places(bits, restarts, anchor, told, of_picture)
        else:
            place = places_by_kind(anchor)
    except ValueError:
        return False
    places = np.empty(len(units.picture), np.int64)
    places[shown] = place
    in_order = places[order]
    return bool((in_order[1:] > in_order[:-1]).all())


def numbers_that_leap(units: AccessUnits) -> Flags:
    """Return the units of H.264 whose picture numbers leap, so that decoders assume missing pictures and invent them.

    Raises:
        ValueError: see ``comes_in_order``, which then returns False.
    """
    shown = (units.picture >= 0).nonzero()[0]
    told = _in_force("h264", _H264_SPS, units, shown, h264_numbers)
    leaps = np.zeros(len(units.picture), np.bool_)
    restarts, (planes, length) = units.restarts[shown], told[3:]
    numbers = np.where(restarts, 0, top_bits(units.slice_bits[shown] << np.uint64(planes), length))
    leaps[shown] = numbers_leap(numbers, 1 << length, np.arange(len(shown)) == 0, restarts, units.anchor[shown])
    return leaps


def follows_leap(units: AccessUnits, leaps: Flags) -> Flags:
    """Return the units at which a decoder may still hold invented pictures; see ``numbers_that_leap``."""
    place = (units.anchor + MOST_HELD * 2 * units.restarts).cumsum()
    last = np.maximum.accumulate(np.where(leaps, place, -2 * MOST_HELD))
    return place - last <= MOST_HELD


def _in_force(
    codec: str, kind: int, units: AccessUnits, shown: Numbers, read: Callable[[bytes], tuple[int, tuple[int, ...]]]
) -> Told:
    """Return the numbers of the parameter set in force at each picture, each one value or int64[N].

    The first set also counts for pictures before it.

    Raises:
        ValueError: there is no set, one cannot be read, or several differ at the same time.
    """
    known = {header: read(header[3:]) for header in set(units.headers.values()) if nal_type(codec, header) == kind}
    told = {numbers for _, numbers in known.values()}
    if len(told) == 1:
        return told.pop()
    if not told or len({number for number, _ in known.values()}) > 1:
        raise ValueError("no parameter sets that tell at a glance")
    positions = [at for at, header in units.headers.items() if header in known]
    rows = np.array([known[units.headers[at]][1] for at in positions], np.int64)
    return tuple(rows[np.maximum(np.searchsorted(positions, units.picture[shown]) - 1, 0)].T)
