"""Tell versions of a remote file apart, by the names under which file systems of fsspec report them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# The names under which file systems report what changes with a file's content, in small letters and without separators.
_MARKS_OF_VERSION = {
    "blobid", "checksum", "clientmodified", "contenthash", "contentmd5", "crc", "crc32c", "created", "creationtime",
    "datetime", "digest", "etag", "generation", "hash", "hex", "lastmodified", "lastmodifiedtime", "lastwritetime",
    "lfs", "md5", "md5checksum", "md5hash", "modificationtime", "modified", "modifiedat", "modifiedtime", "modify",
    "mtime", "oid", "rev", "revision", "servermodified", "sha", "sha1", "sha256", "timemodified", "updated",
    "updatedat", "version", "versionid", "writetime", "xethash",
}  # fmt: skip
_SEPARATORS = re.compile("[-_ .]")


def forget_listings(filesystem: AbstractFileSystem, path: str) -> None:
    """Make a file system ask its server again for facts that it would take from a folder that it has listed before."""
    for each in (path, filesystem._parent(path)):
        filesystem.invalidate_cache(each)
        filesystem.dircache.pop(each, None)
    if (inner := getattr(filesystem, "fs", None)) is not None:  # of dir://, whose paths are others
        inner.invalidate_cache()
        inner.dircache.clear()


def is_mark(key: object) -> bool:
    """Whether a file system reports under this name what changes with a file's content."""
    return _SEPARATORS.sub("", str(key)).lower() in _MARKS_OF_VERSION
