"""Take indexes from a store when they are needed, and keep those used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.state import host as this_host
from videoloader.runtime.forks import after_fork

# What an index takes besides its arrays, and the factor by which derived arrays enlarge it.
_FIXED_BYTES, _GROWTH = 4096, 2


class IndexLookup(Protocol):
    """A source of indexes: an ``IndexStore``, or the files themselves."""

    def get(self, source: str, /) -> VideoIndex: ...


class IndexCache:
    """A mapping from paths to indexes that takes them from a store. Threads may share it.

    If an index is put in that has fewer keyframes, since some were false, they stay removed, even if the index must be
    taken from the store again. A pickle of it is an empty cache over the same store.

    Args:
        store: source of the indexes.
        capacity: approximate number of bytes of indexes to keep; the last one is always kept.
        compare: whether the bytes read of the videos must be those that were indexed.
        host: machine on which the files have the times that the store knows; None for this one.
    """

    def __init__(
        self, store: IndexLookup, capacity: int = 64 << 20, *, compare: bool = True, host: str | None = None
    ) -> None:
        self._store, self._capacity, self._compare, self._host = store, capacity, compare, host or this_host()
        self._struck: dict[str, set[int]] = {}
        self._clear()
        after_fork(self._start_anew)

    def _clear(self) -> None:
        self._kept: OrderedDict[str, VideoIndex] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def _start_anew(self) -> None:
        if self._lock.locked():  # a thread of the parent was in the middle of something
            self._clear()

    def __reduce__(self) -> tuple[Callable[[], IndexCache], tuple[()]]:
        return partial(IndexCache, self._store, self._capacity, compare=self._compare, host=self._host), ()

    def __contains__(self, source: str) -> bool:
        """Whether the index is in the cache."""
        return source in self._kept

    def __getitem__(self, source: str) -> VideoIndex:
        with self._lock:
            if source in self._kept:
                self._kept.move_to_end(source)
                return self._kept[source]
        index = self._store.get(source)
        if index.state is not None:
            index = replace(index, state=replace(index.state, host=self._host, compared=self._compare))
        with self._lock:
            struck = list(self._struck.get(source, ()))
        if struck:
            index = index.without_keyframe(struck)
        self._keep(source, index)
        return index

    def __setitem__(self, source: str, index: VideoIndex) -> None:
        known = self[source]
        if index is known:
            return
        struck = np.flatnonzero(known.packet_key & ~index.packet_key).tolist()
        if struck:
            with self._lock:
                self._struck[source] = self._struck.get(source, set()) | set(struck)
        self._keep(source, index)

    def _keep(self, source: str, index: VideoIndex) -> None:
        with self._lock:
            if replaced := self._kept.pop(source, None):
                self._bytes -= _size(replaced)
            self._kept[source] = index
            self._bytes += _size(index)
            while self._bytes > self._capacity and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(index: VideoIndex) -> int:
    arrays = (getattr(index, name) for name in index.__dataclass_fields__)
    return _FIXED_BYTES + _GROWTH * sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
