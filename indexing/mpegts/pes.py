"""PES packets (ISO/IEC 13818-1, 2.4.3.6): their headers, and the elementary stream without them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.mpegts.packets import OddStreamError, Payloads

NO_TIME = -1
_FIXED_SIZE = 9  # bytes before the optional fields
_LONGEST_TIMES = 10


class PesHeaders(NamedTuple):
    """The headers of some PES packets.

    Attributes:
        row: int64[H], the payload each stands in.
        size: int64[H], bytes of its own, header included.
        declared: int64[H], bytes of elementary stream that should follow; 0 is "until the next header".
        pts, dts: int64[H], 33-bit timestamps in units of 1/90000 s, or NO_TIME.
    """

    row: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    declared: npt.NDArray[np.int64]
    pts: npt.NDArray[np.int64]
    dts: npt.NDArray[np.int64]


def read_pes_headers(array: npt.NDArray[np.uint8], payloads: Payloads) -> PesHeaders:
    """The PES headers of a video stream.

    Args:
        array: uint8[B], the bytes that the payloads lie in.
        payloads: of the stream's pid.

    Raises:
        OddStreamError: a header is damaged, scrambled, or longer than its transport packet.
    """
    row = np.flatnonzero(payloads.unit_start)
    start, stop = payloads.start[row], payloads.stop[row]
    columns = start[:, None] + np.arange(_FIXED_SIZE + _LONGEST_TIMES)
    field = array[np.minimum(columns, max(len(array) - 1, 0))].astype(np.int64)
    stream_id, flags, optional = field[:, 3], field[:, 7] & 0xC0, field[:, 8]
    size = _FIXED_SIZE + optional
    # Video (E0 to EF), private and extended stream ids: those of padding and tables have other headers.
    known = (stream_id >= 0xE0) & (stream_id <= 0xEF) | (stream_id == 0xBD) | (stream_id == 0xFD)
    whole = (field[:, 0] == 0) & (field[:, 1] == 0) & (field[:, 2] == 1) & (start + size <= stop)
    times = np.where(flags == 0xC0, 10, np.where(flags == 0x80, 5, 0))
    if not (known & whole & (times <= optional) & (field[:, 6] & 0x30 == 0)).all():
        raise OddStreamError("a PES header is not plain")
    length = field[:, 4] << 8 | field[:, 5]
    declared = np.where(length > 0, length + 6 - size, 0)
    if (declared < 0).any() or ((length > 0) & (declared == 0)).any():
        raise OddStreamError("a PES packet has no payload")
    pts = np.where(times > 0, _timestamp(field, 9), NO_TIME)
    dts = np.where(times == 10, _timestamp(field, 14), pts)
    return PesHeaders(row, size, declared, pts, dts)


def _timestamp(field: npt.NDArray[np.int64], at: int) -> npt.NDArray[np.int64]:
    high, middle, low = field[:, at], field[:, at + 1] << 8 | field[:, at + 2], field[:, at + 3] << 8 | field[:, at + 4]
    return (high >> 1 & 7) << 30 | middle >> 1 << 15 | low >> 1


def without_headers(payloads: Payloads, row: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> Payloads:
    """The payloads without the PES headers, of ``size`` bytes in the rows ``row``. Some may be empty then."""
    start = payloads.start.copy()
    start[row] += size
    return payloads._replace(start=start)


def unwrap(pts: npt.NDArray[np.int64], dts: npt.NDArray[np.int64], alone: bool) -> npt.NDArray[np.int64]:
    """Presentation times that go on where the 33 bits of the clock wrap around, counted as libavformat does.

    Times that lie more than a minute before the first come after the wrap. Where the first itself lies within
    the last minute before it, times up to the wrap are negative instead.

    Args:
        pts, dts: int64[P], in decode order, none missing.
        alone: whether the program has no other streams. The first timestamp of any stream counts, and that of
            the sound may be some seconds away.

    Raises:
        OddStreamError: what libavformat makes of them depends on the other streams, or they contradict each other.
    """
    period, minute, margin = 1 << 33, 60 * 90000, 30 * 90000
    first = int(dts[0])
    reference = first - minute
    near_reference = min(int(np.abs(times - reference).min()) for times in (pts, dts)) < margin
    near_wrap = first > period - minute - margin or (first < margin and int(max(pts.max(), dts.max())) > period // 2)
    if not alone and (near_reference or near_wrap):
        raise OddStreamError("timestamps are close to where the clock wraps")
    if first < period - minute:
        pts, dts = (np.where(times < reference, times + period, times) for times in (pts, dts))
    else:
        pts, dts = (np.where(times >= reference, times - period, times) for times in (pts, dts))
    if (np.abs(pts - dts) > period // 4).any():
        raise OddStreamError("timestamps contradict each other")
    return pts
