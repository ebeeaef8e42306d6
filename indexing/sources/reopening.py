"""Open a source repeatedly, as clips of one video do, without listing or requesting again what is known."""

from __future__ import annotations

from videoloader.errors import StaleIndexError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.opening import is_remote, open_anew, open_archive, open_source
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.state import Place, SourceState, check_unchanged

# The limit counts the files of all kept listings, about 200 bytes each.
_listings: DirectoryCache[FolderSource] = DirectoryCache(200_000, count=lambda folder: len(folder.files))


def _at_place(place: Place, name: str) -> PartSource:
    return PartSource(open_archive(place.archive), place.offset, place.size, name)


def _may_be(part: PartSource, known: SourceState) -> bool:
    """Whether a remote archive may have the known version. If it cannot, the next to open it asks the server again.

    What this process remembers of the archive may be older than an index that another process has made since.
    """
    if part.state is None or part.state.fingerprint == known.fingerprint:
        return True
    if isinstance(part.whole, RemoteSource):
        part.whole.has_changed = True
    return False


def reopen_source(name: str, known: SourceState | None = None) -> ByteSource:
    """Open a name that may have been opened before, to read what an index describes.

    If a member's archive is unchanged since the member's position was noted, the member is read there, and nothing else
    of the archive.

    A folder of image files is listed again only if files were added, removed or renamed, since listing costs as much as
    decoding several of them. A file that was changed since then is noticed when it is read, by its size and time of
    change; until then the fingerprint may be outdated.

    Args:
        name: name of the source.
        known: its state when it was indexed; None if that is unknown.

    Raises:
        SourceError, IndexingError, UnsupportedError, ConfigurationError: as in ``open_source``.
    """
    if known is not None and known.place is not None:
        part = _at_place(known.place, name)
        # Asking a server beforehand would take a request. If states are compared, every answer gives its version.
        if known.compared and is_remote(known.place.archive):
            return part if _may_be(part, known) else _at_place(known.place, name)
        if part.fingerprint == known.fingerprint:
            return part
    listed = _listings.kept(name)
    if listed is not None and listed.is_current():
        return listed
    source = open_source(name)
    if known is not None and is_remote(name):
        try:
            check_unchanged(source, known)
        except StaleIndexError:  # what this process remembers of an archive may be older, as in ``_may_be``
            source = open_anew(name)
    if isinstance(source, FolderSource):
        return _listings.get(name, lambda: source, outdated=listed)
    return source
