"""Writes Matroska files element by element."""

from __future__ import annotations

import struct
from collections.abc import Sequence

EBML, SEGMENT, INFO, TRACKS, CLUSTER, CUES = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0x1F43B675, 0x1C53BB6B
SEEK_HEAD, TAGS, ATTACHMENTS, VOID, CRC32 = 0x114D9B74, 0x1254C367, 0x1941A469, 0xEC, 0xBF
TRACK_ENTRY, VIDEO, COLOUR, PROJECTION = 0xAE, 0xE0, 0x55B0, 0x7670
TIMESTAMP_SCALE, TIMESTAMP, SIMPLE_BLOCK, BLOCK_GROUP, BLOCK = 0x2AD7B1, 0xE7, 0xA3, 0xA0, 0xA1
BLOCK_DURATION, REFERENCE, BLOCK_ADDITIONS = 0x9B, 0xFB, 0x75A1
NO_LACING, XIPH, FIXED, EBML_LACING = 0, 2, 4, 6


def vint(value: int, length: int = 0) -> bytes:
    """A variable-size integer of the given length, or of the shortest possible one if that is longer."""
    length = max(length, next(size for size in range(1, 9) if value < (1 << 7 * size) - 1))
    return (1 << 7 * length | value).to_bytes(length, "big")


def element(kind: int, *parts: bytes, size_length: int = 0) -> bytes:
    payload = b"".join(parts)
    return kind.to_bytes((kind.bit_length() + 7) // 8, "big") + vint(len(payload), size_length) + payload


def endless(kind: int, *parts: bytes, size_length: int = 8) -> bytes:
    """An element of unknown size."""
    return kind.to_bytes(4, "big") + ((1 << 7 * size_length + 1) - 1).to_bytes(size_length, "big") + b"".join(parts)


def uint(kind: int, value: int) -> bytes:
    return element(kind, value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big"))


def real(kind: int, value: float) -> bytes:
    return element(kind, struct.pack(">d", value))


def block(track: int, time: int, frames: Sequence[bytes], lacing: int = NO_LACING, flags: int = 0) -> bytes:
    """The payload of a block: header, table of a lace, frames."""
    header = vint(track) + struct.pack(">hB", time, flags | lacing)
    if lacing == NO_LACING:
        return header + b"".join(frames)
    sizes = [len(frame) for frame in frames]
    table = bytes([len(frames) - 1])
    if lacing == XIPH:
        table += b"".join(b"\xff" * (size // 255) + bytes([size % 255]) for size in sizes[:-1])
    elif lacing == EBML_LACING:
        previous = None
        for size in sizes[:-1]:
            table += vint(size) if previous is None else _signed(size - previous)
            previous = size
    return header + table + b"".join(frames)


def _signed(value: int) -> bytes:
    length = next(size for size in range(1, 9) if abs(value) < (1 << 7 * size - 1) - 1)
    return vint(value + (1 << 7 * length - 1) - 1, length)


# An av1C record: otherwise only the sizes and times of AV1 frames are read.
AV1 = ("V_AV1", element(0x63A2, b"\x81\0\x0c\0"))


def track(number: int = 1, codec: str = "V_UNCOMPRESSED", *parts: bytes, kind: int = 1, video: bytes = b"") -> bytes:
    """A track entry; it contains ``parts``, and ``video`` in its element Video after the size of 64×48 pixels."""
    size = element(VIDEO, uint(0xB0, 64), uint(0xBA, 48), video) if kind == 1 else b""
    entry = (uint(0xD7, number), uint(0x73C5, number), uint(0x83, kind), element(0x86, codec.encode()))
    return element(TRACK_ENTRY, *entry, *parts, size)


def header(doc_type: str = "matroska", *parts: bytes) -> bytes:
    return element(EBML, element(0x4282, doc_type.encode()), *parts)


def info(scale: int = 1_000_000) -> bytes:
    return element(INFO, uint(TIMESTAMP_SCALE, scale))


def matroska(*clusters: bytes, tracks: Sequence[bytes] = (), scale: int = 1_000_000) -> bytes:
    """A whole file of one video track, or of the tracks given."""
    return header() + element(SEGMENT, info(scale), element(TRACKS, *(tracks or [track(1, *AV1)])), *clusters)
