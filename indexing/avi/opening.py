"""Check the head of an AVI file before libavformat opens it, which trusts the lengths of some chunks there.

For texts and a codec's data it takes as much memory as the chunk claims, up to 2 GB, before it reads any of it.
"""

from __future__ import annotations

from videoloader.errors import IndexingError
from videoloader.indexing.limits import count_time
from videoloader.indexing.sources.base import ByteSource

# libavformat reads the chunks of these one after another, whatever length the list has.
_DESCENDED = (b"hdrl", b"strl", b"odml", b"AVI ", b"AVIX", b"AVI\x19", b"ON2f")
# A format (within its list, if that is shorter), more data of the codec, and a name.
_FORMAT, _TAKEN_WHOLE = b"strf", (b"strd", b"strn")
# Bytes that a chunk may claim beyond the end of the file: libavformat may find the pictures nevertheless.
_MOST_CLAIMED = 64 << 20
_BLOCK = 1 << 20


def check_opening(source: ByteSource) -> None:
    """Raise IndexingError if a large chunk that libavformat takes into memory claims to be longer than the file.

    Raises:
        UnsupportedError: the search for such chunks takes too long; see ``count_time``.
    """
    at = list_end = 0
    while len(head := source.read(at, 12)) == 12:
        count_time()
        name, size, kind = head[:4], int.from_bytes(head[4:8], "little"), head[8:]
        if not any(head[:8]):  # as where space was set aside for a download: empty chunks without a name
            block = source.read(at, _BLOCK)
            at += (len(block) - len(block.lstrip(b"\0"))) // 8 * 8
            continue
        is_list = name in (b"RIFF", b"LIST", b"ON2 ")
        if is_list and kind == b"movi":
            return
        if is_list and kind in _DESCENDED:
            list_end, at = at + 8 + size, at + 12
            continue
        end = at + 8 + size
        if name == _FORMAT and at + 8 < list_end:
            end = min(end, list_end)
        if end > source.size:
            is_taken = name in (_FORMAT, *_TAKEN_WHOLE) or (is_list and kind == b"INFO")
            if is_taken and end - source.size > _MOST_CLAIMED:
                told = f"its chunk {name.decode()} at byte {at} claims {size} bytes, more than the file has"
                raise IndexingError(f"{told}: it is damaged", source.name)
            return
        at = end + size % 2
