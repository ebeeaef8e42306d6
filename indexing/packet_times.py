"""Complete the times of frames and packets, and compute how many frames decoders hold back to show them in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def presentation_times(pts: list[int | None], duration: float, *, in_order: bool) -> npt.NDArray[np.int64]:
    """Make times for frames in display order from their packets' timestamps, some or all of which may be missing.

    Each frame keeps its own time, even where times fall. Missing times are spread evenly between those around them.
    They follow at the nominal rate if there is none on one side, or if the later one is not later.

    Args:
        pts: the packets' timestamps.
        duration: length of a frame at the nominal rate, in the units of the timestamps.
        in_order: whether to sort the known times first, since they number packets, not frames.
    """
    known = np.array([number for number, value in enumerate(pts) if value is not None], np.int64)
    numbers = np.arange(len(pts))
    if not len(known):
        return np.round(numbers * duration).astype(np.int64)
    values = np.array([value for value in pts if value is not None], np.int64)
    if in_order:
        values.sort()
    steps = np.append(np.diff(values) / np.diff(known), duration)
    steps = np.where(steps > 0, steps, duration)
    before = np.maximum(np.searchsorted(known, numbers, "right") - 1, 0)
    # Times before the first known one count back from it.
    steps = np.where(numbers < known[0], duration, steps[before])
    times: npt.NDArray[np.int64] = values[before] + np.round((numbers - known[before]) * steps).astype(np.int64)
    times[known] = values
    return times


def packet_times(
    frame_packet: npt.NDArray[np.integer[Any]], frame_pts: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64]:
    """Make times of packets that give the order in which their frames come out, even where frame times fall.

    Packets without a frame count as shown with the frame before them.
    """
    # A packet that is shown several times gets its last time, so that times are the frames' own wherever those rise.
    rising = frame_pts
    if (frame_pts[1:] <= frame_pts[:-1]).any():
        numbers = np.arange(len(frame_pts))
        rising = np.maximum.accumulate(frame_pts - numbers) + numbers
    packet_pts = np.full(count, rising[0])
    packet_pts[frame_packet] = rising
    with_frame = np.zeros(count, np.int64)
    with_frame[frame_packet] = frame_packet
    if np.count_nonzero(with_frame) < count - 1:  # otherwise all packets except perhaps the first have a frame
        packet_pts = packet_pts[np.maximum.accumulate(with_frame)]
    return packet_pts


def reorder_depth(packet_pts: npt.NDArray[np.int64]) -> int:
    """Return how many frames a decoder holds back to output packets with these timestamps in display order.

    Args:
        packet_pts: int64[P], in decode order.
    """
    if len(packet_pts) < 2 or not np.count_nonzero(packet_pts[1:] < packet_pts[:-1]):
        return 0
    return depth_of(packet_pts.argsort(kind="stable"))


def depth_of(order: npt.NDArray[np.int64]) -> int:
    """Return the same for packet numbers in display order, int64[P] with P at least 1."""
    late = order - np.arange(len(order))
    return int(late[late.argmax()])
