"""Looks up the range of frames of all rows of a data set in an index store, once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from videoloader.dataset.ranges import entry_ranges, rows_in_seconds
from videoloader.dataset.stores import Store, opened_store
from videoloader.errors import NotIndexedError, VideoLoaderError
from videoloader.indexing.sources.opening import is_url
from videoloader.indexing.sources.regular_file import is_missing
from videoloader.indexing.store.cache import IndexCache
from videoloader.indexing.store.frame_counts import Number
from videoloader.indexing.store.frame_facts import TimeRules

if TYPE_CHECKING:
    from videoloader.dataset.table import EntryTable
    from videoloader.indexing import IndexStore

Integers = npt.NDArray[np.int64]
# The facts about frames that frame modes use to count clips.
OF_MODES: tuple[Number, ...] = ("is_even", "first_key_frame", "frames_without_key")


@dataclass(frozen=True, eq=False)
class RowFrames:
    """Facts from a store about all rows of a table.

    Attributes:
        content: state of the store at the look-up (``IndexStore.content``), in saved ones ``look_up_state``.
        columns: int64[N] each: ``first``, ``stop``, the number of ``frames`` of the video, and the requested facts of
            ``OF_MODES``.
        errors: row number -> the reason why it cannot be used; its numbers are 0.
    """

    content: str
    columns: Mapping[str, Integers]
    errors: Mapping[int, VideoLoaderError]

    def take(self, rows: npt.NDArray[np.int64]) -> RowFrames:
        """The rows of these numbers, in their order."""
        failed = np.flatnonzero(np.isin(rows, list(self.errors))).tolist() if self.errors else []
        columns = {name: column[rows] for name, column in self.columns.items()}
        return RowFrames(self.content, columns, {row: self.errors[int(rows[row])] for row in failed})


def look_up_rows(table: EntryTable, store: IndexStore, indexes: IndexCache, names: Sequence[Number]) -> RowFrames:
    """Look up the range of frames of all rows.

    Args:
        table: the rows.
        store: store that holds their videos.
        indexes: indexes of the store, read only where its columns do not suffice.
        names: further facts to look up.

    Raises:
        IndexingError: the store is damaged.
    """
    content, in_seconds = store.content, rows_in_seconds(table).any()
    wanted: list[Number] = ["frames", *names, *(["time_rule"] if in_seconds else [])]  # type: ignore[list-item]
    numbers, errors = store.numbers(table.path, wanted)
    frames = numbers["frames"]
    rules = TimeRules(frames, numbers.pop("time_rule")) if in_seconds else None
    first, stop, errors = entry_ranges(table, frames, indexes, errors, rules)
    return RowFrames(content, {"first": first, "stop": stop, **numbers}, errors)


def look_up_state(table: EntryTable, store: IndexStore) -> str:
    """A text that changes with the store's contents, and with the files to which names lead.

    Relative paths depend on the current folder, and names with ``..`` or ``/::`` on what lies there.
    """
    text, bounds = table.path.utf8()
    first = np.frombuffer(text, np.uint8)[bounds[:-1][table.path.sizes > 0]]
    rest = map(table.path.__getitem__, np.flatnonzero(table.path.sizes > 0)[first != ord("/")].tolist())
    lies_here = cache(lambda scheme: not scheme or not is_missing(scheme))  # a file here may have a name like a URL
    state = [store.content]
    if any(lies_here(name.partition("/")[0] if is_url(name) else "") for name in rest):
        state.append(store.keys.key_of("here"))
    if found := [match.start() for match in re.finditer(rb"\.\.|/::", text)]:
        rows = np.unique(np.searchsorted(bounds, found, side="right") - 1).tolist()
        leading = "\0".join(store.keys.all_absolute([table.path[row] for row in rows]))
        state.append(blake2b(os.fsencode(leading), digest_size=16).hexdigest())
    return " ".join(state)


def resolved(table: EntryTable, store: Store | None) -> EntryTable:
    """The same rows with facts from a store; unchanged without a store.

    Raises:
        NotIndexedError: the store has no row for a video.
        SourceError, IndexingError: the store cannot be read.
    """
    if store is None:
        return table
    with opened_store(table.path, store) as opened:
        state = look_up_state(table, opened)
        frames = replace(look_up_rows(table, opened, IndexCache(opened.unverified()), OF_MODES), content=state)
    for error in frames.errors.values():
        if isinstance(error, NotIndexedError):
            raise error
    return replace(table, frames=frames)
