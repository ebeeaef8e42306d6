"""Opening a source again and again, as clips of one video do."""

from __future__ import annotations

from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.opening import is_remote, open_archive, open_source
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.state import Place, SourceState

# The limit is on the files of all listings kept, about 200 bytes each.
_listings: DirectoryCache[FolderSource] = DirectoryCache(200_000, count=lambda folder: len(folder.files))


def _at_place(place: Place, name: str) -> PartSource:
    return PartSource(open_archive(place.archive), place.offset, place.size, name)


def _may_be(part: PartSource, known: SourceState) -> bool:
    """Whether a remote archive may have the version that is known; one that cannot is asked anew by whoever is next.

    What this process remembers of it may be older than an index that another one has made since.
    """
    if part.state is None or part.state.fingerprint == known.fingerprint:
        return True
    if isinstance(part.whole, RemoteSource):
        part.whole.has_changed = True
    return False


def reopen_source(name: str, known: SourceState | None = None) -> ByteSource:
    """Open a name that may have been opened before, to read what an index tells of.

    A member of an archive that is as it was when the member's place was noted is read there, and nothing else of it.

    A folder of image files is listed again only when files were added to it, taken out or renamed: to list it costs
    as much as to decode several of them. A file that was written to since is found out when it is read, by its size
    and time of change; the fingerprint may be one of before.

    Args:
        name: name of the source.
        known: its state when it was indexed; None where it is not known.

    Raises:
        SourceError, IndexingError, UnsupportedError, ConfigurationError: as in ``open_source``.
    """
    if known is not None and known.place is not None:
        part = _at_place(known.place, name)
        # To ask a server beforehand takes a request; where it is compared, every answer tells which version it has.
        if known.compared and is_remote(known.place.archive):
            return part if _may_be(part, known) else _at_place(known.place, name)
        if part.fingerprint == known.fingerprint:
            return part
    listed = _listings.kept(name)
    if listed is not None and listed.is_current():
        return listed
    source = open_source(name)
    if isinstance(source, FolderSource):
        return _listings.get(name, lambda: source, outdated=listed)
    return source
