"""PES packets (ISO/IEC 13818-1, 2.4.3.6): read their headers, and strip them from the elementary stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.mpegts.packets import OddStreamError, Payloads, gather, packets_of

NO_TIME = -1
_FIXED_SIZE = 9  # bytes before the optional fields
_HEADER = np.dtype(
    [
        ("start_code", ">u4"), ("length", ">u2"), ("flags", ">u2"), ("optional", "u1"),
        ("pts_high", "u1"), ("pts_middle", ">u2"), ("pts_low", ">u2"),
        ("dts_high", "u1"), ("dts_middle", ">u2"), ("dts_low", ">u2"),
    ]
)  # fmt: skip
_SIZE_OF_TIMES = np.array([0, 0, 5, 10])  # bytes, by PTS_DTS_flags


Numbers = npt.NDArray[np.int64]


class PesPackets(NamedTuple):
    """Some PES packets of a stream.

    Attributes:
        position: int64[H], stream position of the first byte after each header.
        packet: int64[H], number of the transport packet of each header in the whole file.
        declared: int64[H], bytes of elementary stream that should follow; 0 for "until the next header".
        pts, dts: int64[H], 33-bit timestamps in units of 1/90000 s, or NO_TIME.
    """

    position: Numbers
    packet: Numbers
    declared: Numbers
    pts: Numbers
    dts: Numbers


def without_headers(data: bytes, payloads: Payloads) -> tuple[Payloads, Numbers, Numbers, Numbers, Numbers]:
    """Return the payloads of a video stream without their PES headers, and what these say.

    Args:
        data: bytes that contain the payloads.
        payloads: payloads of the stream's pid.

    Returns:
        The payloads, some of which may have become empty; for each header int64[H], the payload in which it was; and
        ``declared``, ``pts`` and ``dts`` of ``PesPackets``.

    Raises:
        OddStreamError: a header is damaged, scrambled, or longer than its transport packet.
    """
    row = payloads.unit_start.nonzero()[0]
    start, stop = payloads.start[row], payloads.stop[row]
    if len(row) and start[-1] + _HEADER.itemsize > len(data):
        data += bytes(_HEADER.itemsize)
    header = gather(data, start, _HEADER.itemsize).view(_HEADER)
    start_code, length, flags, optional = (
        header[name].astype(np.int64) for name in ("start_code", "length", "flags", "optional")
    )
    size = _FIXED_SIZE + optional
    # Video (E0 to EF), private and extended stream ids. Those of padding and tables have other headers.
    known = (start_code & ~0xF == 0x1E0) | (start_code == 0x1BD) | (start_code == 0x1FD)
    times = _SIZE_OF_TIMES[flags >> 6 & 3]
    if not (known & (start + size <= stop) & (times <= optional) & (flags & 0x3000 == 0)).all():
        raise OddStreamError("a PES header is not plain")
    bounded = length > 0
    declared = np.where(bounded, length + 6 - size, 0)
    if (bounded & (declared <= 0)).any():
        raise OddStreamError("a PES packet has no payload")
    pts = np.where(times > 0, _timestamp(header, "pts"), NO_TIME)
    dts = np.where(times == 10, _timestamp(header, "dts"), pts)
    start = payloads.start.copy()
    start[row] += size
    return payloads._replace(start=start), row, declared, pts, dts


def _timestamp(header: npt.NDArray[np.void], name: str) -> npt.NDArray[np.int64]:
    high, middle, low = (header[f"{name}_{part}"].astype(np.int64) for part in ("high", "middle", "low"))
    return (high >> 1 & 7) << 30 | middle >> 1 << 15 | low >> 1


def first_time(data: bytes, stride: int, headers: npt.NDArray[np.uint32], pid: int) -> int | None:
    """Return the first presentation time of a stream, 33 bits; None if no PES packet of it in ``data`` has one.

    Args:
        data: bytes that begin with a transport packet.
        stride: bytes from one packet to the next.
        headers: headers of the same data.
        pid: pid of the stream.
    """
    packets = packets_of(headers, pid)
    unit_start, adapted = headers[packets] & 0x4000, headers[packets] & 0x20000000
    for packet, has_field in zip(packets[unit_start > 0].tolist(), adapted[unit_start > 0].tolist(), strict=True):
        start = packet * stride + 4
        start += data[start] + 1 if has_field else 0
        header = data[start : start + _FIXED_SIZE + 5]
        if header[:3] == b"\0\0\1" and len(header) == _FIXED_SIZE + 5 and header[7] & 0x80:
            return int(_timestamp(np.frombuffer(header.ljust(_HEADER.itemsize), _HEADER), "pts")[0])
    return None


def unwrap(pts: Numbers, dts: Numbers, only_stream: bool, others: Sequence[int] = ()) -> Numbers:
    """Unwrap presentation times where the clock of 33 bits wraps around, as libavformat does.

    Times more than a minute before the first come after the wrap. If the first itself is in the last minute before the
    wrap, times up to the wrap are negative instead.

    Args:
        pts, dts: int64[P], in decode order, none missing.
        only_stream: whether the program has no other streams. The first timestamp of any stream counts, and that of the
            sound may be some seconds away.
        others: first timestamps of other streams, 33 bits.

    Raises:
        OddStreamError: the times contradict each other, or depend on other streams in libavformat.
    """
    period, minute, margin = 1 << 33, 60 * 90000, 30 * 90000
    first = int(dts[0])
    reference = first - minute
    if not only_stream:
        near_reference = any((np.abs(times - reference) < margin).any() for times in (pts, dts))
        starts = (first, *others)
        near_end = max(starts) > period - minute - margin
        apart = max(starts) - min(starts) > period // 2  # one begins before the wrap, another one after it
        if near_reference or near_end or apart or (first < margin and max(pts.max(), dts.max()) > period // 2):
            raise OddStreamError("timestamps are close to where the clock wraps")
    if first < period - minute:
        pts, dts = (np.where(times < reference, times + period, times) for times in (pts, dts))
    else:
        pts, dts = (np.where(times >= reference, times - period, times) for times in (pts, dts))
    if (np.abs(pts - dts) > period // 4).any():
        raise OddStreamError("timestamps contradict each other")
    return pts
