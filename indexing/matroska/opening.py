"""Bound the work of libavformat while it opens a Matroska file (RFC 9559), which nothing can interrupt."""

from __future__ import annotations

import re
from collections import Counter

from videoloader.errors import UnsupportedError
from videoloader.indexing.matroska.ebml import VINT_MASK, MalformedError, read_vint
from videoloader.indexing.matroska.headers import ATTACHMENTS, CHAPTERS, TAGS, TRACKS

# A hundred tracks with a group of ten tags each take a third of this, and usual files a thousandth at most. One core
# takes about a second for them.
_MOST_STEPS = 1 << 28
# Steps for a track whose private data is compressed: libavformat unpacks up to 10 MB of it.
_UNPACKED = 1 << 25
_GROUP, _TAG, _NAME = b"\x73\x73", b"\x67\xc8", b"\x45\xa3"  # Tag, SimpleTag, TagName
_TRACK, _PLANE, _SCOPE = b"\xae", b"\xe4", b"\x50\x32"
_TRACK_UID, _CHAPTER_UID, _ATTACHMENT_UID = b"\x73\xc5", b"\x73\xc4", b"\x46\xae"
_UIDS = _TRACK_UID, _CHAPTER_UID, _ATTACHMENT_UID
_WITHIN = {
    TAGS: (_GROUP, _TAG, _NAME),
    TRACKS: (_TRACK, _PLANE, _SCOPE, _TRACK_UID),
    CHAPTERS: (_CHAPTER_UID,),
    ATTACHMENTS: (_ATTACHMENT_UID,),
}
_PATTERNS = {master: re.compile(b"|".join(map(re.escape, kinds))) for master, kinds in _WITHIN.items()}
_OF_PRIVATE_DATA = 2  # in a scope
_PIECE = 64 << 10
_LONGEST_NUMBER = 8
_LOOK_AHEAD = 2 + 8 + _LONGEST_NUMBER


class OpeningWork:
    """Counts elements in the bytes that libavformat reads to open a file, and refuses a file with too many.

    After each group of tags, and each tag that contains others, libavformat copies all names known by then, and
    compares each with all before it. It compares each chapter with all before it, and each plane of a stereo track
    with all tracks.

    Elements are found by their ids, wherever these are, since libavformat follows seek heads to any position, and
    searches damaged files for more. The short ids of tags and the like occur in other data, too, so they count only
    from the long id of the element around them to its end.

    Args:
        source: name of the file.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._rest, self._end = b"", 0
        self._stops: dict[int, int] = dict.fromkeys(_WITHIN, 0)
        # By id, the position of each element with its number, or for tags with their end. Reading twice adds nothing.
        self._found: dict[bytes, dict[int, int]] = {kind: {} for kinds in _WITHIN.values() for kind in kinds}

    def take(self, position: int, data: bytes) -> None:
        """Count the elements in bytes that libavformat is about to get.

        Raises:
            UnsupportedError: they would take it too many steps.
        """
        if position == self._end:
            data, position = self._rest + data, position - len(self._rest)
        self._end = position + len(data)
        whole = max(len(data) - _LOOK_AHEAD, 0)  # what begins after it may be cut off
        self._rest = data[whole:]
        for start in range(0, whole, _PIECE):
            limit = min(_PIECE, whole - start)
            for master in _WITHIN:
                self._search(master, data[start : start + limit + _LOOK_AHEAD], position + start, limit)
            self._check()

    def _search(self, master: int, data: bytes, position: int, limit: int) -> None:
        """Note the elements that begin in ``data[:limit]``, where that is inside of master elements of a kind."""
        identifier = master.to_bytes(4, "big")
        stop = self._stops[master] - position
        first = 0 if stop > 0 else limit
        at = data.find(identifier)
        while 0 <= at < limit:
            first, stop = min(first, at), max(stop, _read(data, at + len(identifier))[0])
            at = data.find(identifier, at + len(identifier))
        self._stops[master] = position + stop
        for match in _PATTERNS[master].finditer(data, first, max(min(stop, limit + 1), 0)):
            end, number = _read(data, match.end())
            self._found[match[0]][position + match.start()] = position + end if match[0] == _TAG else number

    def _check(self) -> None:
        found = {kind: len(elements) for kind, elements in self._found.items()}
        same = max(max(Counter(self._found[kind].values()).values(), default=1) for kind in _UIDS)
        nested, stop = 0, 0
        for position, end in sorted(self._found[_TAG].items()):
            nested, stop = nested + (position < stop), max(stop, end)
        private = sum(scope & _OF_PRIVATE_DATA > 0 for scope in self._found[_SCOPE].values())
        for what, count, steps in (
            ("tags", found[_NAME], found[_NAME] ** 2 * (found[_GROUP] + nested) * same),
            ("chapters", found[_CHAPTER_UID], found[_CHAPTER_UID] ** 2),
            ("planes of stereo tracks", found[_PLANE], found[_PLANE] * found[_TRACK]),
            ("tracks with compressed private data", private, private * _UNPACKED),
        ):
            if steps > _MOST_STEPS:
                told = f"has {count} {what} or more, over which libavformat would take too long"
                # Neither sound nor subtitles, attachments, tags and chapters.
                how = "mkvmerge -o clean.mkv -A -S -M -T --no-global-tags --no-chapters"
                raise UnsupportedError(f"{told}: remux its video alone (e.g. `{how} {self._source}`)", self._source)


def _read(data: bytes, at: int) -> tuple[int, int]:
    """Return where an element ends whose size is at ``data[at:]``, and its number; (0, 0) if it has no valid size."""
    try:
        size, body = read_vint(data, at)
    except MalformedError:
        return 0, 0
    if size == VINT_MASK[body - at]:  # unknown, so it may have no end
        size = 1 << 62
    return body + size, int.from_bytes(data[body : body + size], "big") if size <= _LONGEST_NUMBER else 0
