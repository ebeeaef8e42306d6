"""Read program tables (ISO/IEC 13818-1, 2.4.4): which pid carries the video, and in which codec."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from videoloader.indexing.bitstream.bits import TURNED_BYTES
from videoloader.indexing.mpegts.packets import PAT_PID, OddStreamError, Payloads, find_payloads, gather

_PAT, _PMT = 0, 2  # table ids
_PRIVATE_DATA = 0x06
_REGISTRATION = 0x05  # descriptor tag
_UNKNOWN = "?"
# Video codecs by stream_type of ISO/IEC 13818-1, table 2-34, and types registered at SMPTE. Only codecs that can be cut
# here have a name.
_CODECS = {
    **{0x01: "mpeg2video", 0x02: "mpeg2video", 0x1B: "h264", 0x24: "hevc"},
    **dict.fromkeys((0x10, 0x20, 0x21, 0x33, 0x42, 0xD1, 0xD2, 0xD4, 0xDB, 0xEA), _UNKNOWN),
}
_H264 = {0x1B, 0x20}
_MAP, _LONGEST_PAYLOAD = re.compile(b"\2"), 184
# Private data that is certainly no video: its descriptors name subtitles, teletext or a sound codec.
_NO_VIDEO_TAGS = {0x46, 0x56, 0x59, 0x6A, 0x7A, 0x7B, 0x7C, 0x7F}
_NO_VIDEO_FORMATS = {b"AC-3", b"EAC3", b"DTS1", b"DTS2", b"DTS3", b"BSSD", b"Opus", b"KLVA", b"ID3 ", b"VANC", b"HEAC"}
# Kinds of sound: by stream_type, and in private data by the tag or the name of a descriptor.
_SOUND = {0x03, 0x04, 0x0F, 0x11, 0x1C, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x87, 0xA1, 0xA2}
_SOUND_TAGS = {0x6A, 0x7A, 0x7B, 0x7C}
_SOUND_FORMATS = {b"AC-3", b"EAC3", b"DTS1", b"DTS2", b"DTS3", b"BSSD", b"Opus", b"HEAC"}
_SHORTEST_SECTION = 12  # bytes; a section that claims to be shorter is ignored, and so is everything after it


class ElementaryStream(NamedTuple):
    """One stream of a program. ``codec`` is empty if it is no video, and ``"?"`` if only libavformat knows it."""

    pid: int
    stream_type: int
    codec: str
    is_sound: bool = False


class Programs(NamedTuple):
    """The contents of the program tables.

    Attributes:
        streams: streams of all programs, in the order of their maps.
        table_pids: pids of the program map tables.
        first_table: number in the buffer of the transport packet that completes the first program map table.
    """

    streams: tuple[ElementaryStream, ...]
    table_pids: tuple[int, ...]
    first_table: int


def read_programs(data: bytes, stride: int, headers: np.ndarray) -> Programs:
    """Read the programs whose tables are in ``data``, the head of a file.

    Raises:
        OddStreamError: tables are missing, or a program already changes.
    """
    associations = iterate_sections(data, find_payloads(data, stride, headers, PAT_PID), _PAT)
    _, association = next(associations, (0, b""))
    pids = _table_pids(association)
    if not pids or any(_table_pids(other) != pids for _, other in associations):
        raise OddStreamError("has no program association table, or several")
    streams: dict[int, ElementaryStream] = {}
    maps = [list(iterate_sections(data, find_payloads(data, stride, headers, pid), _PMT)) for pid in pids]
    if not all(maps):
        raise OddStreamError("has no map of one of its programs")
    maps.sort(key=lambda sections: sections[0][0])
    for sections in maps:
        for _, section in sections:
            for stream in read_map(section):
                if streams.setdefault(stream.pid, stream) != stream:
                    raise OddStreamError("a stream changes its type")
    return Programs(tuple(streams.values()), pids, maps[0][0][0])


def iterate_sections(data: bytes, payloads: Payloads, table: int) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the transport packet that completes it, section) of current sections with correct checksums."""
    array = memoryview(data)
    pending = b""
    if _repeats(data, payloads):
        payloads = payloads.rows(slice(1))
    for packet, start, stop, unit_start in zip(*(column.tolist() for column in payloads), strict=True):
        payload = bytes(array[start:stop])
        if unit_start:
            pointer = payload[0] + 1
            pending, payload = pending + payload[1:pointer], payload[pointer:]
            if section := _section(pending, table):
                yield packet, section
            pending = payload
        elif pending:
            pending += payload
        while (section := _section(pending, table)) or _is_whole(pending):
            if section:
                yield packet, section
            pending = pending[_size(pending) :]


def _repeats(data: bytes, payloads: Payloads) -> bool:
    """Whether all payloads are the same whole sections: the usual case, in which one is enough."""
    count = len(payloads.start)
    if count < 2 or not payloads.unit_start.all() or (payloads.stop - payloads.start != 184).any():
        return False
    content = gather(data, payloads.start, 184).tobytes()
    return content == content[:184] * count


def _size(pending: bytes) -> int:
    return 3 + ((pending[1] & 0x0F) << 8 | pending[2])


def _is_whole(pending: bytes) -> bool:
    return len(pending) >= 3 and pending[0] != 0xFF and len(pending) >= _size(pending) >= _SHORTEST_SECTION


def _section(pending: bytes, table: int) -> bytes:
    if not _is_whole(pending) or pending[0] != table:
        return b""
    section = pending[: _size(pending)]
    current = len(section) >= 12 and section[5] & 1
    return section if current and zlib.crc32(section.translate(TURNED_BYTES)) == 0xFFFFFFFF else b""


def _table_pids(section: bytes) -> tuple[int, ...]:
    entries = (section[at : at + 4] for at in range(8, len(section) - 7, 4))
    return tuple(dict.fromkeys((each[2] & 0x1F) << 8 | each[3] for each in entries if each[:2] != b"\0\0"))


def read_map(section: bytes) -> list[ElementaryStream]:
    """Return the streams of a program map section.

    Raises:
        OddStreamError: an entry is longer than the section, though libavformat still makes a stream of it.
    """
    streams = []
    position, stop = 12 + ((section[10] & 0x0F) << 8 | section[11]), len(section) - 4
    while position + 5 <= stop:
        stream_type, pid = section[position], (section[position + 1] & 0x1F) << 8 | section[position + 2]
        start = position + 5
        position = start + ((section[start - 2] & 0x0F) << 8 | section[start - 1])
        if position > stop:
            raise OddStreamError("an entry of a program map does not fit")
        descriptors = section[start:position]
        streams.append(ElementaryStream(pid, stream_type, *_kind(stream_type, descriptors)))
    return streams


def becomes_h264(data: bytes) -> bool:
    """Whether a program map makes a stream H.264 that was something else in one before, wherever packets begin.

    Only maps that lie within one transport packet are seen.
    """
    told: dict[int, bool] = {}
    for found in _MAP.finditer(data):
        section = _section(data[found.start() : found.start() + _LONGEST_PAYLOAD], _PMT)
        with suppress(OddStreamError):
            for stream in read_map(section) if section else ():
                is_h264 = stream.stream_type in _H264
                if is_h264 and not told.get(stream.pid, True):
                    return True
                told[stream.pid] = is_h264
    return False


def _iterate_descriptors(descriptors: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (tag, payload) of each descriptor."""
    position = 0
    while position + 2 <= len(descriptors):
        start = position + 2
        position = start + descriptors[position + 1]
        yield descriptors[start - 2], descriptors[start:position]


def _kind(stream_type: int, descriptors: bytes) -> tuple[str, bool]:
    """Return (codec, whether it is sound) for an ElementaryStream."""
    if stream_type != _PRIVATE_DATA:
        return _CODECS.get(stream_type, ""), stream_type in _SOUND
    told = [(tag, payload[:4] if tag == _REGISTRATION else b"") for tag, payload in _iterate_descriptors(descriptors)]
    is_sound = any(tag in _SOUND_TAGS or name in _SOUND_FORMATS for tag, name in told)
    for tag, name in told:
        if tag in _NO_VIDEO_TAGS or name in _NO_VIDEO_FORMATS:
            return "", is_sound
        if tag == _REGISTRATION:
            return "hevc" if name == b"HEVC" else _UNKNOWN, is_sound
    return _UNKNOWN, is_sound
