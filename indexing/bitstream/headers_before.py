"""Track what decoders of MPEG-1, 2 and 4 keep of the headers in earlier packets.

All keep the last headers of a sequence. libavcodec's decoder of MPEG-4 also keeps the notes of encoders in user data.
It chooses by each of them how to decode, and takes back no such choice. So where notes differ, as in joined files, a
decoder that begins at a keyframe must be shown all of them, in order.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from videoloader.indexing.bitstream.mpeg4_headers import FIRST_LAYER, LAST_LAYER, sections

_USER_DATA = 0xB2
# The notes that libavcodec knows, and how much of each it reads.
_NOTE, _NOTE_SIZE = re.compile(rb"DivX|XviD|Lavc|FFmpe|ffmpeg"), 256
# Stands between the notes of different packets in a record that is made here. Decoders skip it.
_SEPARATOR = b"\0\0\1\xb2next"
# Different notes that are kept in order. Each costs the time of two pictures whenever decoding starts.
_MOST_NOTES = 64
# Records that are made here are shorter than this.
_LONGEST_RECORD = 1 << 18


class Mpeg4Headers(NamedTuple):
    """Headers of MPEG-4 with start codes.

    Attributes:
        layer: headers up to the first video object layer, without user data; empty if there is no layer.
        notes: notes of encoders, in one element for each time that they came, which is empty for pictures before any.
    """

    layer: bytes
    notes: tuple[bytes, ...]

    def record(self) -> bytes:
        """Return the configuration record that ``split_headers`` splits."""
        return self.layer + _SEPARATOR.join(self.notes)

    def steps(self) -> list[bytes]:
        """Return the headers with each element of the notes, as decoders meet them one after the other."""
        return [self.layer + notes for notes in self.notes]


@lru_cache(64)
def split_headers(headers: bytes) -> Mpeg4Headers:
    """Split headers in a packet or a configuration record of MPEG-4."""
    layer: list[bytes] = []
    has_layer = False
    notes: list[dict[bytes, bytes]] = [{}]
    for code, start, stop in sections(headers):
        section = headers[start - 4 : stop]
        if section == _SEPARATOR:
            notes.append({})
        elif code == _USER_DATA and (kind := _NOTE.match(headers, start)):
            notes[-1].pop(kind[0], None)  # of several of a kind, the last counts
            notes[-1][kind[0]] = section[: 4 + _NOTE_SIZE].rstrip(b"\0")
        elif code != _USER_DATA and not has_layer:
            # A decoder skips all layers in one packet but the first.
            layer.append(section)
            has_layer = FIRST_LAYER <= code <= LAST_LAYER
    steps = tuple(b"".join(each.values()) for each in notes)
    return Mpeg4Headers(b"".join(layer) if has_layer else b"", steps if any(steps) else ())


class HeadersBefore:
    """The headers in packets so far, from the first packet on.

    Args:
        codec: "mpeg1video", "mpeg2video" or "mpeg4".
    """

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._last = b""
        self._record: bytes | None = None
        self._of_record: tuple[bytes, ...] = ()  # its notes
        # For MPEG-4, the first headers with a layer and the last, and notes in the order of their first and last
        # occurrence.
        self._first_layer = self._layer = b""
        self._notes: dict[bytes, None] = {}
        self._last_notes: dict[bytes, None] = {}

    def lacking(self, record: bytes, headers: bytes) -> list[bytes]:
        """Take in the next packet, and return what a decoder must be given before it, if it begins there.

        Args:
            record: the container's record that is in force at the packet.
            headers: the sequence headers in the packet; empty if it has none.

        Returns:
            Nothing if the packet's headers suffice. Otherwise the last headers; in MPEG-4, if different encoders have
            left notes, with all notes.
        """
        if self._codec != "mpeg4":
            self._last = headers or self._last
            return [self._last] if self._last and not headers else []
        if record != self._record:
            self._record = record
            layer, self._of_record = split_headers(record[:_LONGEST_RECORD])
            self._take(layer, self._with_record(headers))
            self._take(headers, ())
        elif headers and headers != self._last:
            self._take(headers, split_headers(headers).notes)
        if not self._notes:  # the first picture comes without any
            self._notes[b""] = self._last_notes[b""] = None
        notes = tuple(self._notes)
        if notes != tuple(self._last_notes):
            notes += tuple(self._last_notes)
        if headers and (self._with_record(headers) or (b"",)) == notes:
            return []
        layer = self._first_layer if headers else self._layer
        return [Mpeg4Headers(layer, notes).record()] if layer else []

    def _with_record(self, headers: bytes) -> tuple[bytes, ...]:
        """Return the notes of a decoder that begins with the record and these headers, before its first picture."""
        *earlier, last = self._of_record or (b"",)
        return (*earlier, *split_headers(last + headers).notes)

    def _take(self, headers: bytes, notes: tuple[bytes, ...]) -> None:
        self._last = headers
        self._layer = split_headers(headers).layer or self._layer
        self._first_layer = self._first_layer or self._layer
        for note in notes:
            if note in self._notes or len(self._notes) < _MOST_NOTES:
                self._notes[note] = None
                self._last_notes.pop(note, None)
                self._last_notes[note] = None
