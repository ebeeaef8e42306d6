"""Read the header list of an AVI file: its streams, and where its packets begin."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from videoloader.indexing.sources.base import ByteSource

# Maximum size of a header with names and cover pictures. Files with a longer one are left to libavformat.
_LONGEST_HEADER = 4 << 20
_READ_AT_ONCE = 32 << 10
_LARGEST_STREAM_COUNT = 100  # chunk names have two digits
_STREAM_HEADER = struct.Struct("<4s4sIHHIIIII")
_PICTURE_HEADER = struct.Struct("<Iii2xH4s")
_PICTURE_HEADER_SIZE = 40


class PictureHeader(NamedTuple):
    """The BITMAPINFOHEADER of a video stream, and what follows it.

    Attributes:
        size: size stated in the header.
        width, height: pixels; a negative height means that rows go from top to bottom.
        bits: bits per pixel.
        compression: four-character code.
        extra: bytes after the header: the codec's, or a palette.
    """

    size: int
    width: int
    height: int
    bits: int
    compression: bytes
    extra: bytes


@dataclass
class Stream:
    """One stream, as its ``strl`` list describes it.

    Attributes:
        kind: ``vids``, ``auds``, …
        handler: four-character code of the codec that the writer used.
        scale, rate: the time unit is scale / rate seconds.
        start: time of the first packet in units.
        format, data, super_index: payloads of ``strf``, ``strd`` and ``indx``; empty if there is none.
        aspect: sample aspect ratio by ``vprp``; None if it is not given.
    """

    kind: bytes
    handler: bytes
    scale: int
    rate: int
    start: int
    format: bytes = b""
    data: bytes = b""
    super_index: bytes = field(default=b"", repr=False)
    aspect: Fraction | None = None

    def picture_header(self) -> PictureHeader | None:
        """Return the header of a video stream; None if it is truncated."""
        if len(self.format) < _PICTURE_HEADER_SIZE:
            return None
        size, width, height, bits, compression = _PICTURE_HEADER.unpack_from(self.format)
        return PictureHeader(size, width, height, bits, compression, self.format[_PICTURE_HEADER_SIZE:])


class Header(NamedTuple):
    """The header of an AVI file.

    Attributes:
        streams: streams in the order of their numbers.
        by_index_only: whether packets must be read in the order of the index.
        packets: byte offset of the first chunk in the ``movi`` list.
        packets_stop: byte offset after that list.
    """

    streams: list[Stream]
    by_index_only: bool
    packets: int
    packets_stop: int


def read_header(source: ByteSource) -> Header | None:
    """Read the header list; None if it is not of the plain kind (DV type 1, AMV, damaged)."""
    streams: list[Stream] = []
    frame_period = flags = 0
    in_stream = False
    for kind, start, payload in _chunks(source):
        if kind == b"movi":
            size = int.from_bytes(source.read(start - 8, 4), "little")
            # Writers that were interrupted leave no size.
            stop = min(start - 4 + size + (size & 1), source.size) if size > 4 else source.size
            return Header(streams, bool(flags & 0x20), start, stop)
        if kind == b"avih" and len(payload) >= 16:
            frame_period, flags = struct.unpack_from("<I8xI", payload)
        elif kind == b"amvh":
            return None
        elif kind == b"strh":
            in_stream = payload[:4] != b"pads"
            if not in_stream:
                continue
            if len(payload) < 40 or payload[:4] in (b"iavs", b"ivas") or len(streams) == _LARGEST_STREAM_COUNT:
                return None
            streams.append(_read_stream(payload, frame_period))
        elif in_stream and streams:
            _add(streams[-1], kind, payload)
    return None


def _chunks(source: ByteSource) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield (id, offset of the payload, payload) of all chunks up to the ``movi`` list, included. Lists are entered."""
    position, begin, block = 12, 0, source.read(0, _READ_AT_ONCE)
    limit = min(source.size, _LONGEST_HEADER)
    while position + 8 <= limit:
        if position + 12 > begin + len(block):
            begin, block = position, source.read(position, _READ_AT_ONCE)
        at = position - begin
        kind, size = block[at : at + 4], int.from_bytes(block[at + 4 : at + 8], "little")
        if kind == b"LIST":
            kind = block[at + 8 : at + 12]
            if kind == b"movi":
                yield kind, position + 12, b""
                return
            if kind not in (b"INFO", b"ncdt"):
                position += 12
                continue
        start = position + 8
        if start + size > limit:
            return
        position = start + size + (size & 1)
        if kind in _READ_CHUNKS:
            if start + size > begin + len(block):
                begin, block = start, source.read(start, max(size, _READ_AT_ONCE))
            yield kind, start, block[start - begin : start - begin + size]


_READ_CHUNKS = {b"avih", b"amvh", b"strh", b"strf", b"strd", b"vprp", b"indx"}


def _read_stream(payload: bytes, frame_period: int) -> Stream:
    kind, handler, _, _, _, _, scale, rate, start, _ = _STREAM_HEADER.unpack_from(payload)
    if not scale or not rate:
        scale, rate = (frame_period, 1000000) if frame_period else (1, 25)
    # No writer intends a start after more than an hour.
    return Stream(kind, handler, scale, rate, start if start <= 3600 * rate // scale else 0)


def _add(stream: Stream, kind: bytes, payload: bytes) -> None:
    if kind == b"strf" and not stream.format:
        stream.format = payload
    elif kind == b"strd":
        stream.data = payload
    elif kind == b"indx":
        stream.super_index = payload
    elif kind == b"vprp" and len(payload) > 36:
        denominator, numerator, width, height = struct.unpack_from("<20xHHII", payload)
        if denominator and numerator and width and height:
            stream.aspect = Fraction(numerator * height, denominator * width)
