"""Lies with the sequence headers of codecs other than H.264 and HEVC: left out, repeated, put in front."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from lies.registry import Rng, lie
from lies.remuxed import Packet, Packets, rewritten

_STARTS = re.compile(rb"\0\0\x01(.)", re.DOTALL)
# Start codes of the headers above pictures: MPEG-1/2 sequence headers and their extensions; MPEG-4's up to the VOL.
_HEADERS = {"mpeg2video": {0xB3, 0xB5}, "mpeg1video": {0xB3}, "mpeg4": {*range(0x30), 0xB0, 0xB1, 0xB5}}
_PICTURES = {"mpeg2video": 0x00, "mpeg1video": 0x00, "mpeg4": 0xB6}


def _split(codec: str, data: bytes) -> tuple[bytes, bytes]:
    """(the headers, the rest) of a packet; headers stand before its first picture."""
    if codec == "av1":
        units = list(_obus(data))
        return b"".join(unit for kind, unit in units if kind == 1), b"".join(unit for kind, unit in units if kind != 1)
    starts = [(match.start(), match.group(1)[0]) for match in _STARTS.finditer(data)]
    headers, rest, before_picture = b"", b"", True
    for (at, code), (following, _) in zip(starts, [*starts[1:], (len(data), 0)], strict=True):
        before_picture = before_picture and code != _PICTURES[codec]
        if before_picture and code in _HEADERS[codec]:
            headers += data[at:following]
        else:
            rest += data[at:following]
    return headers, rest


def _obus(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, bytes) of AV1's open bitstream units (AV1 specification, 5.3); all have a size in packets."""
    at = 0
    while at < len(data):
        position = at + 1 + (data[at] >> 2 & 1)
        size = shift = 0
        if data[at] & 2:
            while True:
                size |= (data[position] & 127) << shift
                position += 1
                shift += 7
                if not data[position - 1] & 128:
                    break
        else:
            size = len(data) - position
        yield data[at] >> 3 & 15, data[at : position + size]
        at = position + size


def _told(data: bytes, change: Callable[[Packets], list[Packet] | None]) -> bytes | None:
    return rewritten(data, lambda found: change(found) if found.codec in {*_HEADERS, "av1"} else None)


@lie()
def headers_only_at_the_start(data: bytes, rng: Rng) -> bytes | None:
    def change(found: Packets) -> list[Packet]:
        return [
            replace(each, data=_split(found.codec, each.data)[1]) if number else each
            for number, each in enumerate(found.packets)
        ]

    return _told(data, change)


@lie()
def headers_of_some_missing(data: bytes, rng: Rng) -> bytes | None:
    def change(found: Packets) -> list[Packet]:
        return [
            replace(each, data=_split(found.codec, each.data)[1]) if rng.random() < 0.5 else each
            for each in found.packets
        ]

    return _told(data, change)


@lie()
def headers_everywhere(data: bytes, rng: Rng) -> bytes | None:
    def change(found: Packets) -> list[Packet] | None:
        headers = next((first for each in found.packets if (first := _split(found.codec, each.data)[0])), b"")
        headers = headers or (found.config if found.codec == "mpeg4" else b"")
        if not headers:
            return None
        packets = []
        for each in found.packets:
            delimiter = each.data[:2] if found.codec == "av1" and each.data[:2] == b"\x12\0" else b""
            packets.append(replace(each, data=delimiter + headers + each.data[len(delimiter) :]))
        return packets

    return _told(data, change)
