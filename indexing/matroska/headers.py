"""Read the part of a Matroska file before its first cluster: the time scale, the tracks, where blocks begin."""

from __future__ import annotations

from typing import NamedTuple

from videoloader.indexing.matroska.ebml import (
    CRC32,
    LONGEST_HEADER,
    SEGMENT,
    VOID,
    Element,
    MalformedError,
    iterate_elements,
    read_header,
    read_string,
    read_uint,
)
from videoloader.indexing.matroska.tracks import Track, read_tracks
from videoloader.indexing.sources import ByteSource

CLUSTER, CUES, TAGS, SEEK_HEAD = 0x1F43B675, 0x1C53BB6B, 0x1254C367, 0x114D9B74
INFO, TRACKS, ATTACHMENTS, CHAPTERS = 0x1549A966, 0x1654AE6B, 0x1941A469, 0x1043A770
TOP_LEVEL = {CLUSTER, CUES, TAGS, SEEK_HEAD, INFO, TRACKS, ATTACHMENTS, CHAPTERS}
IN_SEGMENT = {*TOP_LEVEL, VOID, CRC32}
_READ_VERSION, _MAX_ID_LENGTH, _MAX_SIZE_LENGTH = 0x42F7, 0x42F2, 0x42F3
_DOC_TYPE, _DOC_TYPE_READ_VERSION = 0x4282, 0x4285
_TIMESTAMP_SCALE, _SEEK_ID, _SEEK_POSITION = 0x2AD7B1, 0x53AB, 0x53AC
# Maximum size of an element that is read into memory at once: more than any description of tracks needs.
_LARGEST_MASTER = 16 << 20
# Bytes that usually contain everything before the first cluster.
_START = 4 << 10


class _Start:
    """A file whose first bytes are read once, since much is read there a few bytes at a time."""

    def __init__(self, source: ByteSource) -> None:
        self.size = source.size
        self._source, self._head = source, source.read(0, _START)

    def read(self, offset: int, size: int) -> bytes:
        data = self._head[offset : offset + size]
        return data if len(data) == size else self._source.read(offset, size)


class Headers(NamedTuple):
    """The part before the first cluster. ``clusters`` is where that begins, ``stop`` is where the segment ends."""

    time_scale: int
    tracks: list[Track]
    has_attachments: bool
    clusters: int
    stop: int | None


def read_headers(source: ByteSource) -> Headers:
    """Read up to the first cluster, and after the clusters what the seek head says is there.

    Raises:
        MalformedError: something is missing, occurs twice, or is out of place.
    """
    start = _Start(source)
    ebml = _read_element(start, 0)
    _check_version(dict(iterate_elements(_read_master(start, ebml))))
    segment = _read_element(start, ebml.stop or 0)
    if segment.id != SEGMENT or (segment.stop is not None and segment.stop < source.size):
        raise MalformedError("no segment, or something after it")
    masters: dict[int, bytes] = {}
    seek_heads = b""
    has_attachments = False
    position = segment.start
    while (element := _read_element(start, position)).id != CLUSTER:
        if element.id in (INFO, TRACKS):
            if element.id in masters:
                raise MalformedError(f"a second element {element.id:X} at byte {position}")
            masters[element.id] = _read_master(start, element)
        elif element.id not in IN_SEGMENT:
            raise MalformedError(f"element {element.id:X} at byte {position} is no part of a segment")
        elif element.id == SEEK_HEAD:
            seek_heads += _read_master(start, element)
        has_attachments |= element.id == ATTACHMENTS
        if element.stop is None:
            raise MalformedError(f"element {element.id:X} at byte {position} has no size")
        position = element.stop
    for kind in {INFO, TRACKS} - masters.keys():
        # It comes after the clusters, where only the seek head leads.
        element = _read_element(start, segment.start + _read_seek_head(seek_heads).get(kind, source.size))
        if element.id != kind:
            raise MalformedError(f"element {kind:X} is not where the seek head says")
        masters[kind] = _read_master(start, element)
    scale = read_uint(dict(iterate_elements(masters[INFO])).get(_TIMESTAMP_SCALE, b"")) or 1_000_000
    if scale >= 1 << 31:
        raise MalformedError(f"a time scale of {scale} ns")
    return Headers(scale, read_tracks(masters[TRACKS]), has_attachments, position, segment.stop)


def _read_seek_head(data: bytes) -> dict[int, int]:
    """Return positions of elements in the segment by id; the first if one is listed twice."""
    positions: dict[int, int] = {}
    for _, payload in iterate_elements(data):
        entry = dict(iterate_elements(payload))
        positions.setdefault(read_uint(entry.get(_SEEK_ID, b"")), read_uint(entry.get(_SEEK_POSITION, b"")))
    return positions


def _read_master(source: _Start, element: Element) -> bytes:
    """Return the payload of a master element, if it has a plausible size.

    Raises:
        MalformedError: it is incomplete or too large.
    """
    if element.stop is None or element.stop > source.size or element.stop - element.start > _LARGEST_MASTER:
        raise MalformedError(f"element {element.id:X} at byte {element.start} has no size that can be")
    return source.read(element.start, element.stop - element.start)


def _read_element(source: _Start, position: int) -> Element:
    return Element(*read_header(source.read(position, LONGEST_HEADER), 0, position))


def _check_version(header: dict[int, bytes]) -> None:
    # The default for a missing element is never too large.
    largest = {_READ_VERSION: 1, _MAX_ID_LENGTH: 4, _MAX_SIZE_LENGTH: 8, _DOC_TYPE_READ_VERSION: 3}
    too_large = any(read_uint(header.get(element, b"")) > most for element, most in largest.items())
    if too_large or read_string(header.get(_DOC_TYPE, b"")) not in ("matroska", "webm"):
        raise MalformedError("another kind or a later version of EBML")
