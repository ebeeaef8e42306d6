"""Rows by what the indexes of their videos tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from videoloader.dataset.ranges import entry_ranges
from videoloader.dataset.stores import DISPLAYED_HEIGHT, Store, facts_of_rows, opened_store
from videoloader.dataset.table import EntryTable
from videoloader.errors import FrameRangeError
from videoloader.indexing.store.cache import IndexCache

# Half of what lies between 29.97 and 30.
_SAME_RATE = 0.0005


def rows_where(
    table: EntryTable, store: Store | None, sql: str, parameters: Sequence[object], min_frames: int | None
) -> tuple[npt.NDArray[np.int64], list[tuple[str, str]]]:
    """Numbers of the rows that fulfil all conditions, and (path, error) of those that cannot be read.

    Args:
        table, store, min_frames: as of ``VideoDataset.where``.
        sql, parameters: what ``conditions_in_sql`` gives.
    """
    kept, unreadable = [], []
    with opened_store(table.path, store) as opened:
        # The line break ends a comment that the condition may end with.
        facts = facts_of_rows(opened, table.path, ["error", "frames", f"({sql}\n)"], parameters)
        for row, (error, frames, fulfilled) in enumerate(facts):
            if error is not None:
                unreadable.append((table.path[row], error))
            elif fulfilled:
                kept.append((row, frames))
        rows, frame_counts = np.array(kept, np.int64).reshape(-1, 2).T
        if min_frames is not None:
            indexes = IndexCache(opened.unverified())
            first, stop, errors = entry_ranges(table.take(rows), frame_counts, indexes, {})
            for error in errors.values():
                if not isinstance(error, FrameRangeError):
                    raise error
            rows = rows[stop - first >= min_frames]
    return rows, unreadable


def conditions_in_sql(
    condition: str, min_height: int | None, codec: str | Collection[str] | None, fps: float | tuple[float, float] | None
) -> tuple[str, list[object]]:
    """The conditions of ``VideoDataset.where`` on facts of a video, and the parameters of them."""
    conditions, parameters = [f"({condition}\n)" if condition.strip() else "1"], list[object]()
    if min_height is not None:
        conditions.append(f"{DISPLAYED_HEIGHT} >= ?")
        parameters.append(min_height)
    if codec is not None:
        codecs = [codec] if isinstance(codec, str) else list(codec)
        conditions.append(f"codec IN ({','.join('?' * len(codecs))})")
        parameters += codecs
    if fps is not None:
        rate = (fps * (1 - _SAME_RATE), fps * (1 + _SAME_RATE)) if isinstance(fps, int | float) else fps
        conditions.append("fps BETWEEN ? AND ?")
        parameters += map(float, rate)
    return " AND ".join(conditions), parameters
