"""Tables of clips without videos, for the arithmetic of orders and shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.order.clip_table import ClipTable, FrameRanges


def table_of_counts(
    counts: Sequence[int], columns: Sequence[dict[str, Any]] | None = None, paths: Sequence[str] | None = None
) -> ClipTable:
    """A table with so many clips in each row; each row is a separate file unless ``paths`` says otherwise."""
    rows = np.arange(len(counts))
    data = VideoDataset(
        [
            VideoEntry(paths[row] if paths else f"{row}.mp4", columns=columns[row] if columns else {})
            for row in rows.tolist()
        ]
    )
    frames = np.array(counts, np.int64)
    ranges = FrameRanges(rows, 0 * frames, frames, frames, {}, [], np.zeros(len(rows), np.bool_))
    return ClipTable(data, ranges, np.cumsum(frames))
