"""Cache the directories of containers for their next member."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from videoloader.indexing.sources.patience import ReadCancelled, raise_if_cancelled, wait_for
from videoloader.runtime.forks import after_fork
from videoloader.runtime.threads import Outcome

Directory = TypeVar("Directory")

# An archive without members takes 2.5 KB, and each entry of a tar or zip archive some hundred bytes.
_ENTRIES_OF_NONE = 16

# A doubt about an archive, as the end of a sentence.
SEVERAL = "hold several files with the same name, and the last one counts"


class _Making(Outcome[Directory]):
    """A directory that a thread makes."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = threading.get_ident()


class DirectoryCache(Generic[Directory]):
    """The directories used last. Threads that ask for the same one wait for the first of them to make it.

    Args:
        limit: maximum number of entries in all kept directories together; at least one directory is kept.
        count: returns the number of entries of a directory. As many are added for the directory itself as take up the
            memory of an empty one.
    """

    def __init__(self, limit: int, count: Callable[[Any], int] = len) -> None:
        self._limit, self._entries_of = limit, count
        self._clear()
        after_fork(self._clear)

    def _clear(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may use the library, too
        self._kept: OrderedDict[Hashable, _Making[Directory]] = OrderedDict()
        self._entries = 0

    def _count(self, directory: Directory) -> int:
        return self._entries_of(directory) + _ENTRIES_OF_NONE

    def kept(self, key: Hashable) -> Directory | None:
        """Return the directory of that key if it is kept, else None."""
        with self._lock:
            future = self._kept.get(key)
            if future is None or not future.done():
                return None
            self._kept.move_to_end(key)
        return future.result()

    def get(self, key: Hashable, make: Callable[[], Directory], outdated: Directory | None = None) -> Directory:
        """Return the directory of that key, made by ``make()`` if none is kept, or if the kept one is ``outdated``."""
        if outdated is None and (kept := self.kept(key)) is not None:
            return kept
        mine = _Making[Directory]()
        try:
            with self._lock:
                future = self._kept.get(key)
                if future is not None and future.done() and future.result() is outdated:
                    self._entries -= self._count(outdated)
                    future = None
                # A signal's handler raised in this thread when it had begun to make it.
                if future is not None and not future.done() and future.maker == mine.maker:
                    future = None
                if future is None:
                    future = self._kept[key] = mine
                self._kept.move_to_end(key)
            if future is mine:
                return self._made(mine, make())
        except BaseException as error:
            if not mine.done():
                with self._lock:
                    if self._kept.get(key) is mine:
                        del self._kept[key]
                mine.set_exception(error)
            raise
        try:
            return wait_for(future)
        except BaseException as error:
            # The work of the thread that made it was cancelled, but not that of this thread.
            if not future.done() or (isinstance(error, Exception) and not isinstance(error, ReadCancelled)):
                raise
        raise_if_cancelled()
        return self.get(key, make, outdated)

    def _made(self, future: Future[Directory], directory: Directory) -> Directory:
        with self._lock:
            future.set_result(directory)
            self._entries += self._count(directory)
            while self._entries > self._limit and len(self._kept) > 1:
                oldest = next(iter(self._kept.values()))
                if not oldest.done():
                    break
                self._kept.popitem(last=False)
                self._entries -= self._count(oldest.result())
        return directory
