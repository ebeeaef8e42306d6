"""Opening a source again and again, as clips of one video do."""

from __future__ import annotations

import threading
from collections import OrderedDict

from videoloader.indexing.forks import after_fork
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.opening import open_source

# Of all listings kept, about 200 bytes each; the last listing is always kept.
_MOST_FILES = 200_000


class _Listings:
    """The folders listed last, by the names they were opened with."""

    def __init__(self) -> None:
        self._clear()
        after_fork(self._clear)

    def _clear(self) -> None:
        self._kept: OrderedDict[str, FolderSource] = OrderedDict()
        self._files = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> FolderSource | None:
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def put(self, name: str, folder: FolderSource) -> None:
        with self._lock:
            if replaced := self._kept.pop(name, None):
                self._files -= len(replaced.files)
            self._kept[name] = folder
            self._files += len(folder.files)
            while self._files > _MOST_FILES and len(self._kept) > 1:
                self._files -= len(self._kept.popitem(last=False)[1].files)


def reopen_source(name: str) -> ByteSource:
    """``open_source`` for a name that may have been opened before, to read what an index tells of.

    A folder of image files is listed again only when files were added to it, taken out or renamed: to list it costs
    as much as to decode several of them. A file that was written to since is found out when it is read, by its size
    and time of change; the fingerprint may be one of before.

    Raises:
        SourceError, IndexingError, UnsupportedError, ConfigurationError: as for ``open_source``.
    """
    listed = _listings.get(name)
    if listed is not None and listed.is_current():
        return listed
    source = open_source(name)
    if isinstance(source, FolderSource):
        _listings.put(name, source)
    return source


_listings = _Listings()
