"""Bound the work of libavformat while it opens a Matroska file (RFC 9559), which nothing can interrupt."""

from __future__ import annotations

import re
from collections import Counter

from videoloader.errors import UnsupportedError
from videoloader.indexing.matroska.ebml import VINT_MASK, MalformedError, read_vint
from videoloader.indexing.matroska.headers import ATTACHMENTS, CHAPTERS, TAGS, TRACKS

# Comparisons of the first letters of two names. One core takes about a second for them, and of 45 real files none needs
# more than a five-hundredth of them.
_MOST_STEPS = 1 << 28
# So many more letters that two names share take as long as another comparison. Longer names are cut.
_LETTERS, _LONGEST_NAME = 4, 1023
# So many comparisons of numbers take as long as one of names.
_QUICK = 8
# Steps for a track whose private data is compressed: libavformat unpacks up to 10 MB of it.
_UNPACKED = 1 << 25
# Tag, SimpleTag, TagName, TargetType, and TagLanguage in both forms.
_GROUP, _TAG, _NAME, _TYPE = b"\x73\x73", b"\x67\xc8", b"\x45\xa3", b"\x63\xca"
_LANGUAGES = b"\x44\x7a", b"\x44\x7b"
_TRACK, _PLANE, _SCOPE = b"\xae", b"\xe4", b"\x50\x32"
_TRACK_UID, _CHAPTER_UID, _ATTACHMENT_UID = b"\x73\xc5", b"\x73\xc4", b"\x46\xae"
_UIDS = _TRACK_UID, _CHAPTER_UID, _ATTACHMENT_UID
# Of these, only the number matters.
_COUNTED: dict[int, tuple[bytes, ...]] = {TAGS: (_GROUP,), TRACKS: (_TRACK, _PLANE)}
_WITHIN = {
    TAGS: (_TAG, _NAME, _TYPE, *_LANGUAGES),
    TRACKS: (_SCOPE, _TRACK_UID),
    CHAPTERS: (_CHAPTER_UID,),
    ATTACHMENTS: (_ATTACHMENT_UID,),
}
_PATTERNS = {master: re.compile(b"|".join(map(re.escape, kinds))) for master, kinds in _WITHIN.items()}
_DEEPEST = 16  # libavformat reads no elements that are deeper
_OF_PRIVATE_DATA = 2  # in a scope
_PIECE = 64 << 10
_LOOK_AHEAD = 2 + 8 + 8  # the longest number with its id and size


class OpeningWork:
    """Counts elements in the bytes that libavformat reads to open a file, and refuses a file with too many.

    After each group of tags, and each tag that contains others, libavformat copies all names known by then, and
    compares each with all before it, letter by letter. It compares each chapter with all before it, and each plane of
    a stereo track with all tracks.

    Elements are found by their ids, wherever these are, since libavformat follows seek heads to any position, and
    searches damaged files for more. The short ids of tags and the like occur in other data, too, so they count only
    from the long id of the element around them to its end.

    Args:
        source: name of the file.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._rest, self._end = b"", 0
        self._ranges = dict.fromkeys(_WITHIN, range(0))  # the last master elements of each kind
        self._values: dict[bytes, Counter[bytes]] = {kind: Counter() for kinds in _WITHIN.values() for kind in kinds}
        self._counts = Counter[bytes]()
        # Where the tags around the last one end, how many were inside of others, and how deep.
        self._around: list[int] = []
        self._nested, self._deepest = 0, 1

    def take(self, position: int, data: bytes) -> None:
        """Count the elements in bytes that libavformat is about to get.

        Raises:
            UnsupportedError: they would take it too many steps.
        """
        if position == self._end:
            data, position = self._rest + data, position - len(self._rest)
        else:  # libavformat goes on in an element only if it has skipped a part of it
            self._around.clear()
            self._ranges = {master: each if position in each else range(0) for master, each in self._ranges.items()}
        self._end = position + len(data)
        whole = max(len(data) - _LOOK_AHEAD, 0)  # what begins after it may be cut off
        self._rest = data[whole:]
        for start in range(0, whole, _PIECE):
            for master in _WITHIN:
                self._search(master, data, position, start, min(start + _PIECE, whole))
            self._check()

    def _search(self, master: int, data: bytes, position: int, start: int, limit: int) -> None:
        """Note the elements that begin in ``data[start:limit]``, where that is inside of master elements of a kind."""
        identifier = master.to_bytes(4, "big")
        around = self._ranges[master]
        first, stop = (start, around.stop - position) if position + start in around else (limit, 0)
        at = data.find(identifier, start, limit + 3)
        while at >= 0:
            first, stop = min(first, at), max(stop, _read(data, at + len(identifier))[0])
            at = data.find(identifier, at + len(identifier), limit + 3)
        if first < limit:
            self._ranges[master] = range(
                around.start if position + first in around else position + first, position + stop
            )
        for kind in _COUNTED.get(master, ()):
            self._counts[kind] += data.count(kind, first, max(min(stop, limit + len(kind) - 1), 0))
        for match in _PATTERNS[master].finditer(data, first, max(min(stop, limit + 1), 0)):
            kind = match[0]
            end, value = _read(data, match.end())
            if kind == _TAG:
                self._nest(position + match.start(), position + end)
            elif kind == _SCOPE:
                self._counts[kind] += len(value) <= 8 and int.from_bytes(value, "big") & _OF_PRIVATE_DATA > 0
            else:
                self._values[kind][value] += 1

    def _nest(self, position: int, end: int) -> None:
        self._around = [each for each in self._around if each > position]
        self._nested += bool(self._around)
        if len(self._around) < _DEEPEST:
            self._around.append(end)
        self._deepest = max(self._deepest, len(self._around))

    def _check(self) -> None:
        found = self._counts + Counter({kind: values.total() for kind, values in self._values.items()})
        for what, count, steps in (
            ("tags", found[_NAME], self._steps_of_tags()),
            ("chapters", found[_CHAPTER_UID], found[_CHAPTER_UID] ** 2),
            ("tracks", found[_TRACK_UID], found[_TRACK_UID] ** 2),
            ("attachments", found[_ATTACHMENT_UID], found[_ATTACHMENT_UID] ** 2),
            ("planes of stereo tracks", found[_PLANE], found[_PLANE] * found[_TRACK] // _QUICK),
            ("tracks with compressed private data", found[_SCOPE], found[_SCOPE] * _UNPACKED),
        ):
            if steps > _MOST_STEPS:
                told = f"has {count} {what} or more, over which libavformat would take too long"
                # Neither sound nor subtitles, attachments, tags and chapters.
                how = "mkvmerge -o clean.mkv -A -S -M -T --no-global-tags --no-chapters"
                raise UnsupportedError(f"{told}: remux its video alone (e.g. `{how} {self._source}`)", self._source)

    def _steps_of_tags(self) -> int:
        """Return how many comparisons the copies of names take at most.

        A name in full is the type of the group's target, the names of the tags around a tag, its name and its language.
        """
        names, types = self._values[_NAME], self._values[_TYPE]
        languages = set[bytes]().union(*(self._values[kind] for kind in _LANGUAGES))
        different: int = max(len(names), 1) ** self._deepest * (1 + len(types)) * (1 + len(languages))
        # Each with its language and without.
        different = min(different, 2 * max(names.total(), len(types), len(languages)))
        longest = max(map(len, names), default=0) * self._deepest + max(map(len, types), default=0)
        # Tracks that share their number share tags.
        same = max(max(self._values[kind].values(), default=1) for kind in _UIDS)
        copies = 1 + self._counts[_GROUP] + self._nested
        return copies * different * different * same * (_LETTERS + min(longest, _LONGEST_NAME)) // _LETTERS


def _read(data: bytes, at: int) -> tuple[int, bytes]:
    """Return where the element ends whose size is at ``data[at:]``, and its value; (0, b"") without a valid size.

    Leading zeros do not count, nor do bytes after the longest name.
    """
    try:
        size, body = read_vint(data, at)
    except MalformedError:
        return 0, b""
    if size == VINT_MASK[body - at]:  # unknown, so it may have no end
        size = 1 << 62
    return body + size, data[body : body + min(size, _LONGEST_NAME)].lstrip(b"\0")
