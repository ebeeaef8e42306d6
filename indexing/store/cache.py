"""Indexes out of a store when they are wanted, the ones used last kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

import numpy as np

from videoloader.indexing.index import VideoIndex

# What an index costs besides its arrays, and how much larger it grows by what is derived from them.
_FIXED_BYTES, _GROWTH = 4096, 2


class IndexLookup(Protocol):
    """Where indexes come from: an ``IndexStore``, or the files themselves."""

    def get(self, source: str, /) -> VideoIndex: ...


class IndexCache:
    """A mapping from paths to indexes that takes them from a store. Safe to use from many threads.

    An index that is put in, with keyframes struck out that are none, stays that way, also when it has to be taken
    from the store again. Pickled, it is an empty one over the same store.

    Args:
        store: whose indexes these are.
        capacity: bytes of indexes kept, about; the last one is always kept.
    """

    def __init__(self, store: IndexLookup, capacity: int = 64 << 20) -> None:
        self._store, self._capacity = store, capacity
        self._kept: OrderedDict[str, VideoIndex] = OrderedDict()
        self._bytes = 0
        self._struck: dict[str, set[int]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[IndexCache], tuple[IndexLookup, int]]:
        return IndexCache, (self._store, self._capacity)

    def __contains__(self, source: str) -> bool:
        """Whether it is at hand."""
        return source in self._kept

    def __getitem__(self, source: str) -> VideoIndex:
        with self._lock:
            if source in self._kept:
                self._kept.move_to_end(source)
                return self._kept[source]
            struck = self._struck.get(source, ())
        index = self._store.get(source)
        for packet in struck:
            index = index.without_keyframe(packet)
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
