"""Rows by what the indexes of their videos tell."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from videoloader.dataset.ranges import entry_range
from videoloader.dataset.stores import DISPLAYED_HEIGHT, Store, facts_of_rows, opened_store
from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import FrameRangeError
from videoloader.indexing import IndexStore
from videoloader.indexing.store.cache import IndexCache

# Half of what lies between 29.97 and 30.
_SAME_RATE = 0.0005


def rows_where(
    table: EntryTable,
    store: Store | None,
    condition: str,
    *,
    min_frames: int | None,
    min_height: int | None,
    codec: str | Collection[str] | None,
    fps: float | tuple[float, float] | None,
) -> tuple[npt.NDArray[np.int64], list[tuple[str, str]]]:
    """Numbers of the rows that fulfil all conditions, and (path, error) of those that cannot be read.

    Arguments and errors as of ``VideoDataset.where``.
    """
    sql, parameters = _in_sql(condition, min_height, codec, fps)
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
            rows = rows[_frames_meant(table, rows, frame_counts, opened) >= min_frames]
    return rows, unreadable


def _in_sql(
    condition: str, min_height: int | None, codec: str | Collection[str] | None, fps: float | tuple[float, float] | None
) -> tuple[str, list[object]]:
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


def _frames_meant(
    table: EntryTable, rows: npt.NDArray[np.int64], frames: npt.NDArray[np.int64], store: IndexStore
) -> npt.NDArray[np.int64]:
    """int64: how many frames each row's part of its video has; 0 where it lies outside."""
    first = np.where(table.start[rows] == NONE, 0, table.start[rows])
    stop = np.where(table.stop[rows] == NONE, frames, table.stop[rows])
    meant = np.where(stop <= frames, np.maximum(stop - first, 0), 0)
    indexes = IndexCache(store.unverified())
    in_seconds = ~(np.isnan(table.start_seconds[rows]) & np.isnan(table.stop_seconds[rows]))
    for place in np.flatnonzero(in_seconds).tolist():
        entry = table[int(rows[place])]
        try:
            begin, end = entry_range(entry, indexes[entry.path])
            meant[place] = end - begin
        except FrameRangeError:
            meant[place] = 0
    return meant
