"""``open_source``: open the bytes that a path, URL, file object or "archive::member" stands for."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from videoloader.errors import ArgumentError, ConfigurationError, SourceError, StaleIndexError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import path_text
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.errors.short_text import short_text
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.file_object import FileObjectSource
from videoloader.indexing.sources.folder import (
    FolderSource,
    Timestamps,
    frame_folder_places,
    is_frame_folder,
    split_times,
)
from videoloader.indexing.sources.gzip_file import unpacked_tfrecord
from videoloader.indexing.sources.lmdb_value import LmdbSource, is_lmdb
from videoloader.indexing.sources.local import FileSource, MemorySource
from videoloader.indexing.sources.recordio import is_recordio, open_recordio
from videoloader.indexing.sources.regular_file import is_folder, kind_at
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.stream import NAMED_STREAM, choose_stream
from videoloader.indexing.sources.tar import open_tar_member
from videoloader.indexing.sources.tfrecord import is_tfrecord, open_tfrecord
from videoloader.indexing.sources.zip_member import is_zip, open_zip_member

# What ``open_source``, ``build_index`` and ``Video`` accept.
Openable: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | ByteSource"

ArchiveKind = Literal["tar", "zip", "TFRecord", "RecordIO", "LMDB"]

_MEMBER = "::"
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LOCAL_URL = re.compile(r"file://(?:localhost)?(?=/)", re.IGNORECASE)
# fsspec writes these before another path or URL: "zip://member::https://…", "simplecache::s3://…".
_KINDS = ("tar", "libarchive", "reference", "dir", "simplecache", "filecache", "blockcache", "cached")
CHAINS = tuple(f"{kind}::" for kind in _KINDS)
_CHAINED = re.compile(rf"(?:{'|'.join(_KINDS)})(?:://|::)")
_ARCHIVED = re.compile(r"(?:zip|tar)://(.+?)::(.+)", re.DOTALL)
_CACHED = re.compile(r"(?:(?:simplecache|filecache|blockcache|cached)::)+")
# An IPv6 address has two colons itself.
_HOST = re.compile(r"(?:[^/@\[]*@)?\[[^\]/]*\]")
# What names of folders of images may have that are not those of folders.
_OF_FRAMES = re.compile(r"[*?]|::(?:fps|timestamps)=")
_HEAD_SIZE = 512
# Characters; Linux takes no longer ones, and other systems shorter ones.
LONGEST_PATH = 4096


@tells_of_arguments
def open_source(source: Openable) -> ByteSource:
    """Return a ByteSource for anything that holds the bytes of a video.

    Args:
        source: str, path, bytes, file object or ByteSource, which means one of:

            - a path. A path that exists is never taken for anything else. A ``file://`` URL is the path that its
              percent codes give, so ``%3A%3A`` in it is ``::``.
            - a folder of image files, or a pattern for some of them, ``folder/left_*.png``. A rate or a list of times
              may follow: ``folder::fps=24``, ``folder::timestamps=times.txt`` (see ``FolderSource``).
            - any URL that fsspec supports: ``https://…``, ``s3://…``, ``memory://…`` (needs the extra ``remote``). Two
              colons in the path of a URL must be written ``%3A%3A``.
            - ``"archive::member"``, where the archive is a path or URL. Its contents decide what the member is: in tar
              (uncompressed) and zip the member's path; in TFRecord the record's number, ``"a.tfrecord::17"``, or a
              feature of the ``tf.train.Example`` in it, ``"a.tfrecord::17/video/encoded"``; in MXNet RecordIO the
              record's number (its key, if an ``.idx`` file is beside), ``"a.rec::17"``, or, without the header that
              ``mxnet.recordio.pack`` writes, ``"a.rec::17/unpacked"``; in LMDB (folder or file) the key (needs the
              extra ``lmdb``). Only deflated members of zip files are unpacked. Directories of archives are read once
              per process.
            - any of these, followed by ``::stream_index=2`` for one of several video streams; see ``build_index``.
            - the bytes of a file, or a seekable binary file object, which must stay open and not be used otherwise.
            - a ByteSource, which is returned unchanged.

    Raises:
        SourceError: the file or member does not exist, cannot be read, or is empty.
        IndexingError: the archive is damaged or truncated.
        UnsupportedError: the archive is of an unknown kind, or compressed.
        ConfigurationError: a required package is not installed; or the source has another type (ArgumentError).

    Examples:
        >>> open_source("https://example.org/shard-0001.tar::clip.mp4").size
        1048576
    """
    if isinstance(source, bytes):
        opened: ByteSource = MemorySource(source)
    elif isinstance(source, io.BytesIO) and not source.closed:
        opened = MemorySource(source.getvalue())
    elif isinstance(source, str | os.PathLike):
        opened = _open_name(path_text("source", source))
        if isinstance(opened, RemoteSource):
            return opened  # its size is unknown before a request, and it raises the error itself if it is empty
    elif hasattr(source, "seek"):
        opened = FileObjectSource(cast(BinaryIO, source))
    elif hasattr(source, "read_ranges"):
        opened = source
    else:
        wanted = "a path, a URL, bytes, a binary file or a ByteSource"
        instead = ": write dataset.build_store(store)" if hasattr(source, "build_store") else ""
        raise ArgumentError(f"source must be {wanted}, of one video, got {short_text(source)}{instead}")
    if opened.size == 0:
        raise SourceError("is empty", opened.name)
    return opened


def _open_name(name: str) -> ByteSource:
    if not name:
        raise ArgumentError("source is an empty path")
    name = without_scheme(name)
    try:
        return FileSource(name)  # as nearly all names are
    except SourceError as error:
        raise_of_handler(error)
    if is_frame_folder(name):
        return FolderSource(name)
    if kind_at(name):
        return FileSource(name)
    if named := named_stream(name):
        return choose_stream(_open_name(named[1]), int(named[2]))
    container, member = _split_member(name)
    if not member:
        if name.endswith(_MEMBER):
            raise SourceError("names an archive, but no member of it", name)
        if is_remote(container):
            return RemoteSource(container)
        return FileSource(container)
    if is_folder(container):
        if not kind_at(os.path.join(container, "data.mdb")):
            wanted = "the folder, 'folder::fps=25' or 'folder::timestamps=FILE' for a folder of images"
            raise SourceError(f"is a folder, and no LMDB database with a record {member!r}: give {wanted}", container)
        return LmdbSource(container, member)
    return _open_member(open_archive(container), member)


def named_stream(name: str) -> re.Match[str] | None:
    """Match the name of one of a file's streams. A stream has no streams, so names have one number at most."""
    named = NAMED_STREAM.fullmatch(name)
    again = named and NAMED_STREAM.fullmatch(named[1])
    return None if again and not kind_at(again[0]) else named


class LocalPlaces(NamedTuple):
    """Files and a folder that ``open_source`` opens on this machine.

    Attributes:
        files: paths, for example of the archive of a member, or of a list of times.
        folder: a folder of images, which is listed; None if there is none.
    """

    files: list[str]
    folder: str | None = None


def local_places(name: str) -> LocalPlaces | None:
    """Return what ``open_source`` opens for a name, and open nothing; None if any part of it needs fsspec.

    Raises:
        SourceError: a part of a path cannot be reached, so nobody can tell.
    """
    name = without_scheme(name)
    kind = kind_at(name)
    if kind == stat.S_IFREG:
        return LocalPlaces([name])
    if is_frame_folder(name):
        folder, files = frame_folder_places(name)
        return LocalPlaces(files, folder)
    if kind:
        return LocalPlaces([name])
    if named := named_stream(name):
        return local_places(named[1])
    container, member = _split_member(name)
    if is_remote(container):
        return None
    # Read together with an archive: the data of a database, or the keys of records.
    beside = (os.path.join(container, "data.mdb"), f"{os.path.splitext(container)[0]}.idx") if member else ()
    return LocalPlaces([container, *beside])


def open_frames(source: Openable, fps: float | Fraction | None, timestamps: Timestamps | None) -> ByteSource:
    """Open a source as ``open_source`` does, with a rate or times as ``FolderSource`` takes them, or None for both.

    Raises:
        ConfigurationError: the source is no folder of image files, or the times are not valid.
    """
    if fps is None and timestamps is None:
        return open_anew(source)
    path = local_path(path_text("source", source)) if isinstance(source, str | os.PathLike) else ""
    if not is_frame_folder(path):
        raise ConfigurationError(
            f"fps and timestamps are for folders of image files, and {short_text(source)} is not one; AtRate and "
            "Video.between read videos at other rates"
        )
    return FolderSource(path, fps=fps, timestamps=timestamps)


def open_anew(source: Openable, asked: set[str] | None = None) -> ByteSource:
    """Open a source as ``open_source`` does; if it is in a remote archive, ask the server whether that has changed.

    Args:
        source: source.
        asked: archives that are not asked for again. This one is added.
    """
    if isinstance(source, str | os.PathLike) and is_url(name := path_text("source", source)):
        named = named_stream(name)
        container, member = _split_member(named[1] if named else name)
        if member and is_remote(container) and container not in (asked or ()):
            _ask_again(container)
            if asked is not None:
                asked.add(container)
    return open_source(source)


def _ask_again(archive: str) -> None:
    """Ask the server for the version of a remote archive that this process has read. ``open_archive`` knows it then."""
    with suppress(StaleIndexError):
        _kept_remote(archive, os.getpid()).ask_again()


def open_archive(name: str) -> ByteSource:
    """Open the archive itself, at a path or URL.

    Remote archives are shared by all members in this process, and count as unchanged until an answer shows otherwise.

    Raises:
        SourceError, ConfigurationError: as in ``open_source``.
    """
    if not is_remote(name):
        return FileSource(local_path(name))
    kept = _kept_remote(name, os.getpid())
    if kept.has_changed:
        _kept_remote.cache_clear()
        kept = _kept_remote(name, os.getpid())
    return kept


def is_url(name: str) -> bool:
    """Whether a name begins as a URL, ``file://`` included, or a chain of them. A member's name may hold one, too."""
    return "://" in name and begins_as_url(name)


def begins_as_url(name: str) -> bool:
    """Whether a name begins as a URL, or with what fsspec writes before another path or URL: ``simplecache::``."""
    return bool(_URL.match(name) or _CHAINED.match(name))


def is_remote(name: str) -> bool:
    """Whether a name is to be opened with fsspec."""
    if not begins_as_url(name) or _LOCAL_URL.match(name):
        return False
    named = NAMED_STREAM.fullmatch(name)
    return not os.path.exists(name) and not (named and os.path.exists(named[1]))


def split_local(name: str, is_there: Callable[[str], object]) -> tuple[str, str]:
    """Split the name of something on this machine into its path, and what follows: "::" and a member, or nothing.

    Args:
        name: a path or ``file://`` URL, of a file, an archive's member, or a folder of images.
        is_there: function that tells whether anything is at a path.
    """
    if _MEMBER not in name or is_there(local_path(name)):
        return local_path(name), ""
    if (named := named_stream(name)) and is_there(path := local_path(named[1])):
        return path, name[named.end(1) :]
    if _OF_FRAMES.search(name) and is_frame_folder(local_path(name)):
        path, _ = split_times(local_path(name))
        return path, local_path(name)[len(path) :]
    end = _end_of_path(name, is_there)
    return local_path(name[:end]), name[end:]


def has_members_only(archive: str) -> bool:
    """Whether a path is that of a file, and names that go on with "::" are of its members: no path begins like that."""
    if "://" in archive:  # not a path
        return False
    folder, name = os.path.split(archive)
    try:
        with os.scandir(folder or os.curdir) as entries:
            return os.path.isfile(archive) and not any(entry.name.startswith(f"{name}{_MEMBER}") for entry in entries)
    except (OSError, ValueError):  # nobody may list the folder, or no file can have this name
        return False


def without_scheme(name: str) -> str:
    """Return the path that a ``file://`` URL means, with a member's name if there is one; other names as they are."""
    return "".join(split_local(name, kind_at)) if _LOCAL_URL.match(name) else name


def _end_of_path(name: str, is_there: Callable[[str], object]) -> int:
    """Return where the path in a local name ends: the shortest part that is there, or else what precedes any "::"."""
    at = first = name.find(_MEMBER)
    while 0 <= at < LONGEST_PATH:
        if is_there(local_path(name[:at])):
            return at
        at = name.find(_MEMBER, at + 1)
    return first if first >= 0 else len(name)


def local_path(name: str) -> str:
    """Return the path, or the path of a ``file://`` URL."""
    local = _LOCAL_URL.match(name)
    return unquote(name[local.end() :], errors="surrogateescape") if local else name


def _split_member(name: str) -> tuple[str, str]:
    """Split a name into archive and member; the member is empty if the name is not in an archive.

    Raises:
        ConfigurationError: an archive on this machine is named in the order of fsspec.
    """
    if archived := _ARCHIVED.fullmatch(name):
        if not is_remote(archived[2]):
            raise ConfigurationError(f"names an archive on this machine: write {archived[2]}::{archived[1]}", name)
        return archived[2], archived[1]
    if cached := _CACHED.match(name):
        container, member = _split_member(name[cached.end() :])
        return cached[0] + container, member
    if _CHAINED.match(name):
        return name, ""
    url = _URL.match(name)
    if url and url[1].lower() != "file":
        host = _HOST.match(name, url.end())
        path = host.end() if host else url.end()
        container, _, member = name[path:].partition(_MEMBER)
        return name[:path] + container, member
    end = _end_of_path(name, kind_at)
    return name[:end], name[end + len(_MEMBER) :]


# Learning which version of a file a server has takes a request, made once for all its members. The number is that of
# the process, since connections do not survive a fork.
@lru_cache(maxsize=64)
def _kept_remote(url: str, process: int) -> RemoteSource:
    return RemoteSource(url)


def open_archive_of_kind(name: str) -> tuple[ArchiveKind, ByteSource]:
    """Return the kind of archive at a path or URL, by its first bytes, and its bytes; gzipped TFRecords are unpacked.

    Anything of no other kind counts as a tar archive.

    Raises:
        SourceError, ConfigurationError: as in ``open_source``. Or its members have no names by which they are opened.
    """
    path = without_scheme(name)
    if _split_member(f"{path}{_MEMBER}0") != (path, "0"):
        raise ConfigurationError("its members cannot be named: unpack it, or give it another name or URL", name)
    if is_remote(name):
        _ask_again(name)
    if is_folder(path):
        if not kind_at(data := os.path.join(path, "data.mdb")):
            raise ConfigurationError(f"is a folder, and no LMDB database: give its archives, as '{name}/*.tar'", name)
        return "LMDB", FileSource(data)
    return _kind_of(open_archive(name))


def _kind_of(container: ByteSource) -> tuple[ArchiveKind, ByteSource]:
    head = container.read(0, _HEAD_SIZE)
    if is_tfrecord(head):
        return "TFRecord", container
    if unpacked := unpacked_tfrecord(container, head):
        return "TFRecord", unpacked
    if is_recordio(head):
        return "RecordIO", container
    if is_zip(head):
        return "zip", container
    if is_lmdb(head) and isinstance(container, FileSource):
        return "LMDB", container
    return "tar", container


def _open_member(container: ByteSource, member: str) -> ByteSource:
    kind, archive = _kind_of(container)
    return _MEMBER_OPENERS[kind](archive, member)


_MEMBER_OPENERS: dict[ArchiveKind, Callable[[ByteSource, str], ByteSource]] = {
    "TFRecord": open_tfrecord,
    "RecordIO": open_recordio,
    "zip": open_zip_member,
    "LMDB": lambda archive, member: LmdbSource(archive.name, member),
    "tar": open_tar_member,
}
