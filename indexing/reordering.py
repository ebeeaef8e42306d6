"""The depth to which frames are reordered between decoding and display."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def reorder_depth(packet_pts: npt.NDArray[np.int64]) -> int:
    """The number of frames that a decoder holds back to give out packets with these timestamps in display order.

    Args:
        packet_pts: int64[P], decode order.
    """
    if len(packet_pts) < 2 or (packet_pts[1:] >= packet_pts[:-1]).all():
        return 0
    return depth_of(np.argsort(packet_pts, kind="stable"))


def depth_of(order: npt.NDArray[np.int64]) -> int:
    """The same of packet numbers in display order, int64[P]; one at least."""
    late = order - np.arange(len(order))
    return int(late[late.argmax()])
