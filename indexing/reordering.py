"""Compute how many frames a decoder must hold back to output them in display order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def reorder_depth(packet_pts: npt.NDArray[np.int64]) -> int:
    """Return how many frames a decoder holds back to output packets with these timestamps in display order.

    Args:
        packet_pts: int64[P], in decode order.
    """
    if len(packet_pts) < 2 or (packet_pts[1:] >= packet_pts[:-1]).all():
        return 0
    return depth_of(np.argsort(packet_pts, kind="stable"))


def depth_of(order: npt.NDArray[np.int64]) -> int:
    """Return the same for packet numbers in display order, int64[P] with P at least 1."""
    late = order - np.arange(len(order))
    return int(late[late.argmax()])
