"""How far frames are reordered between decoding and display."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def reorder_depth(packet_pts: npt.NDArray[np.int64]) -> int:
    """How many frames a decoder holds back to give out packets with these timestamps in display order.

    Args:
        packet_pts: int64[P], decode order.
    """
    if len(packet_pts) < 2 or (packet_pts[1:] >= packet_pts[:-1]).all():
        return 0
    rank = np.empty(len(packet_pts), np.int64)
    rank[np.argsort(packet_pts, kind="stable")] = np.arange(len(packet_pts))
    return int(np.max(np.arange(len(rank)) - rank))
