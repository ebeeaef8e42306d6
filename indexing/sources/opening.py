"""open_source: the bytes that a path, URL, file object or "archive::member" stands for."""

from __future__ import annotations

import io
import os
import re
import reprlib
from fractions import Fraction
from functools import lru_cache
from typing import BinaryIO, Literal, TypeAlias, cast
from urllib.parse import unquote

from videoloader.errors import ArgumentError, ConfigurationError, SourceError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.file_object import FileObjectSource
from videoloader.indexing.sources.folder import FolderSource, Timestamps, frame_folder_places, is_frame_folder
from videoloader.indexing.sources.gzip_file import unpacked_tfrecord
from videoloader.indexing.sources.lmdb_value import LmdbSource, is_lmdb
from videoloader.indexing.sources.local import FileSource, MemorySource
from videoloader.indexing.sources.recordio import is_recordio, open_recordio
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.stream import NAMED_STREAM, choose_stream
from videoloader.indexing.sources.tar import open_tar_member
from videoloader.indexing.sources.tfrecord import is_tfrecord, open_tfrecord
from videoloader.indexing.sources.zip_member import is_zip, open_zip_member

# What ``open_source``, ``build_index`` and ``Video`` take.
Openable: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | ByteSource"

ArchiveKind = Literal["tar", "zip", "TFRecord", "RecordIO", "LMDB"]

_MEMBER = "::"
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LOCAL_URL = re.compile(r"file://(?:localhost)?(?=/)", re.IGNORECASE)
# fsspec writes these in front of another path or URL, "zip://member::https://…", "simplecache::s3://…".
_CHAINED = re.compile(r"(?:tar|libarchive|reference|dir|simplecache|filecache|blockcache|cached)(?:://|::)")
_ZIPPED = re.compile(r"zip://(.+?)::(.+)")
_HEAD_SIZE = 512


def open_source(source: Openable) -> ByteSource:
    """A ByteSource for whatever holds the bytes of a video.

    Args:
        source: str, path, bytes, file object or ByteSource, which means one of:

            - a path. One that exists is never taken for anything else. ``file://`` URLs are paths too.
            - a folder of image files, or a pattern for some of them, ``folder/left_*.png``; with its rate or list of
              times behind it, ``folder::fps=24``, ``folder::timestamps=times.txt`` (see ``FolderSource``).
            - any URL that fsspec knows: ``https://…``, ``s3://…``, ``memory://…`` (needs the extra ``remote``). In
              the path of a URL two colons of its own must be written ``%3A%3A``.
            - ``"archive::member"``, the archive a path or URL, by what it holds: tar (uncompressed) or zip and the
              member's path; TFRecord and the record's number, ``"a.tfrecord::17"``, or a feature of the
              ``tf.train.Example`` in it, ``"a.tfrecord::17/video/encoded"``; MXNet RecordIO and the record's number
              (its key, with an ``.idx`` file beside), ``"a.rec::17"``, or without the header that
              ``mxnet.recordio.pack`` writes, ``"a.rec::17/unpacked"``; LMDB (folder or file) and the key (needs
              the extra ``lmdb``). Nothing is unpacked but deflated members of zip files. Directories of archives
              are read once a process.
            - any of these, and behind it ``::stream_index=2`` for one of several video streams; see ``build_index``.
            - bytes of a file, or a seekable binary file object, which must stay open and be left alone.
            - a ByteSource, which is returned as it is.

    Raises:
        SourceError: there is no such file or member, it cannot be read, or is empty.
        IndexingError: the archive is damaged or cut off.
        UnsupportedError: the archive is of no known kind, or compressed.
        ConfigurationError: a package that is needed is not installed; or the source has another type (ArgumentError).

    Examples:
        >>> open_source("https://example.org/shard-0001.tar::clip.mp4").size
        1048576
    """
    if isinstance(source, bytes):
        opened: ByteSource = MemorySource(source)
    elif isinstance(source, io.BytesIO) and not source.closed:
        opened = MemorySource(source.getvalue())
    elif isinstance(source, str | os.PathLike):
        opened = _open_name(os.fspath(source))
        if isinstance(opened, RemoteSource):
            return opened  # its size is not known before a request; it tells itself that it is empty
    elif hasattr(source, "seek"):
        opened = FileObjectSource(cast(BinaryIO, source))
    elif hasattr(source, "read_ranges"):
        opened = source
    else:
        wanted = "a path, a URL, bytes, a binary file or a ByteSource"
        instead = ": write dataset.build_index(store)" if hasattr(source, "build_index") else ""
        raise ArgumentError(f"source must be {wanted}, of one video, got {reprlib.repr(source)}{instead}")
    if opened.size == 0:
        raise SourceError("is empty", opened.name)
    return opened


def _open_name(name: str) -> ByteSource:
    if not name:
        raise ArgumentError("source is an empty path")
    if os.path.isfile(name):
        return FileSource(name)
    if is_frame_folder(path := local_path(name)):
        return FolderSource(path)
    if os.path.exists(name):
        return FileSource(name)
    if named := NAMED_STREAM.fullmatch(name):
        return choose_stream(_open_name(named[1]), int(named[2]))
    container, member = _split_member(name)
    if not member:
        if is_remote(container):
            return RemoteSource(container)
        return FileSource(local_path(container))
    if os.path.isdir(local_path(container)):
        return LmdbSource(local_path(container), member)
    return _open_member(open_archive(container), member)


def local_places(name: str) -> list[str] | None:
    """The local files and folders that ``open_source`` opens for a name; None where it asks fsspec for any of it.

    The archive of a member, the folder of a pattern, the list of its times, and whatever a folder of images links to.
    """
    if os.path.isfile(name):
        return [name]
    if is_frame_folder(path := local_path(name)):
        return frame_folder_places(path)
    if os.path.exists(name):
        return [name]
    if named := NAMED_STREAM.fullmatch(name):
        return local_places(named[1])
    container, member = _split_member(name)
    if is_remote(container):
        return None
    path = local_path(container)
    # What is read along with an archive: the data of a database, the keys of records.
    beside = (os.path.join(path, "data.mdb"), f"{os.path.splitext(path)[0]}.idx") if member else ()
    return [path, *filter(os.path.lexists, beside)]


def open_frames(source: Openable, fps: float | Fraction | None, timestamps: Timestamps | None) -> ByteSource:
    """The same as ``open_source`` where a rate or times are given, as ``FolderSource`` takes them, or None for both.

    Raises:
        ConfigurationError: the source is no folder of image files, or the times are none.
    """
    if fps is None and timestamps is None:
        return open_source(source)
    path = local_path(os.fspath(source)) if isinstance(source, str | os.PathLike) else ""
    if not is_frame_folder(path):
        raise ConfigurationError(
            f"fps and timestamps are for folders of image files, and {reprlib.repr(source)} is not one; AtRate and "
            "Video.between read videos at other rates"
        )
    return FolderSource(path, fps=fps, timestamps=timestamps)


def open_archive(name: str) -> ByteSource:
    """The archive itself that lies at a path or URL.

    Remote ones are shared by all that open them in this process, and taken for unchanged until an answer tells
    otherwise.

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


def is_remote(name: str) -> bool:
    """Whether a name is for fsspec."""
    return bool(_URL.match(name) or _CHAINED.match(name)) and not _LOCAL_URL.match(name) and not os.path.exists(name)


def local_path(name: str) -> str:
    """A path, or that of a ``file://`` URL."""
    local = _LOCAL_URL.match(name)
    return unquote(name[local.end() :]) if local else name


def _split_member(name: str) -> tuple[str, str]:
    """The archive and the member that a name means; no member where it means no archive.

    The archive of a local name is the shortest beginning that exists.
    """
    if zipped := _ZIPPED.match(name):
        return zipped[2], zipped[1]
    if _CHAINED.match(name):
        return name, ""
    url = _URL.match(name)
    if url and url[1].lower() != "file":
        # The address before the path may hold two colons itself.
        address = max(name.find("/", url.end()), url.end())
        container, _, member = name[address:].partition(_MEMBER)
        return name[:address] + container, member
    at = name.find(_MEMBER)
    first = at
    while at >= 0:
        if os.path.exists(local_path(name[:at])):
            return name[:at], name[at + len(_MEMBER) :]
        at = name.find(_MEMBER, at + 1)
    return (name[:first], name[first + len(_MEMBER) :]) if first >= 0 else (name, "")


# Which version of a file a server has takes a request to learn: once for all its members. The number is that of the
# process, since connections end at a fork.
@lru_cache(maxsize=64)
def _kept_remote(url: str, process: int) -> RemoteSource:
    return RemoteSource(url)


def open_archive_of_kind(name: str) -> tuple[ArchiveKind, ByteSource]:
    """The kind of archive at a path or URL, by its first bytes, and its bytes; of gzip'd TFRecords unpacked ones.

    What is of no other kind is called a tar archive.

    Raises:
        SourceError, ConfigurationError: as in ``open_source``.
    """
    if os.path.isdir(path := local_path(name)):
        if not os.path.exists(database := os.path.join(path, "data.mdb")):
            raise SourceError("is a folder, and no LMDB database: name the archives in it, as folder/*.tar", name)
        return "LMDB", FileSource(database)
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
    match kind:
        case "TFRecord":
            return open_tfrecord(archive, member)
        case "RecordIO":
            return open_recordio(archive, member)
        case "zip":
            return open_zip_member(archive, member)
        case "LMDB":
            return LmdbSource(archive.name, member)
        case "tar":
            return open_tar_member(archive, member)
