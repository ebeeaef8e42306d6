"""Unpack TFRecord files that are compressed as a whole by gzip (RFC 1952) into memory, once per process."""

from __future__ import annotations

import io
import zlib

from videoloader.errors import IndexingError
from videoloader.indexing.limits import beyond, current_limits
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.forward import forward
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.state import check_unchanged, version_of
from videoloader.indexing.sources.tfrecord import is_tfrecord

_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 1 << 20

# The files used last, limited by bytes; at least one is kept.
_unpacked: DirectoryCache[MemorySource] = DirectoryCache(256 << 20, count=lambda source: source.size)


def unpacked_tfrecord(file: ByteSource, head: bytes) -> ByteSource | None:
    """Return the unpacked records of a TFRecord file compressed by gzip; None if it is no such file.

    Args:
        file: file that may be one.
        head: its first bytes.

    Raises:
        UnsupportedError: unpacked it takes more memory than allowed (``member_bytes`` of ``Limits``).
        IndexingError: the file is damaged or truncated.
        StaleIndexError: it changed while it was unpacked.
    """
    if not head.startswith(_MAGIC):
        return None
    try:
        first = zlib.decompressobj(_GZIP).decompress(head, len(head))
    except zlib.error:
        return None
    if not is_tfrecord(first):
        return None
    return _unpacked.get(version_of(file), lambda: _unpack(file))


def _unpack(file: ByteSource) -> MemorySource:
    """Unpack all members of the file, piece by piece, so that memory stays within the limit."""
    source, most, out = forward(file), current_limits().member_bytes, io.BytesIO()
    unpacker = zlib.decompressobj(_GZIP)
    try:
        for offset in range(0, file.size, _PIECE):
            packed = source.read(offset, _PIECE)
            while packed:
                if unpacker.eof:
                    unpacker = zlib.decompressobj(_GZIP)
                out.write(unpacker.decompress(packed, _PIECE))
                if out.tell() > most:
                    what = f"is compressed by gzip, and more than {most} bytes unpacked (or unpack the file)"
                    raise beyond("member_bytes", what, file.name)
                packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib.error as error:
        raise IndexingError(f"is damaged ({error})", file.name) from None
    if not unpacker.eof:
        raise IndexingError("is cut off: its compressed data does not end", file.name)
    check_unchanged(file)  # the checksums are those of members, each of which may be of another version
    return MemorySource(out.getvalue(), file.name)
