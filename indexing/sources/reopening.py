"""Opening a source again and again, as clips of one video do."""

from __future__ import annotations

from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.opening import open_source

# The limit is on the files of all listings kept, about 200 bytes each.
_listings: DirectoryCache[FolderSource] = DirectoryCache(200_000, count=lambda folder: len(folder.files))


def reopen_source(name: str) -> ByteSource:
    """``open_source`` for a name that may have been opened before, to read what an index tells of.

    A folder of image files is listed again only when files were added to it, taken out or renamed: to list it costs
    as much as to decode several of them. A file that was written to since is found out when it is read, by its size
    and time of change; the fingerprint may be one of before.

    Raises:
        SourceError, IndexingError, UnsupportedError, ConfigurationError: as for ``open_source``.
    """
    listed = _listings.kept(name)
    if listed is not None and listed.is_current():
        return listed
    source = open_source(name)
    if isinstance(source, FolderSource):
        return _listings.get(name, lambda: source, outdated=listed)
    return source
