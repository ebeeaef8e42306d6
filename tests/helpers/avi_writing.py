"""Writes AVI files by hand, with every layout of chunks and indexes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import av

KEYFRAME = 0x10


def chunk(name: bytes, payload: bytes = b"") -> bytes:
    return name + struct.pack("<I", len(payload)) + payload + b"\0" * (len(payload) & 1)


def chunk_list(kind: bytes, *parts: bytes) -> bytes:
    return chunk(b"LIST", kind + b"".join(parts))


def riff(kind: bytes, *parts: bytes) -> bytes:
    return chunk(b"RIFF", kind + b"".join(parts))


@dataclass(frozen=True)
class Video:
    """A video stream and its packets."""

    packets: tuple[bytes, ...]
    keys: tuple[bool, ...]
    code: bytes
    width: int = 160
    height: int = 128
    extra: bytes = b""
    scale: int = 1
    rate: int = 25
    start: int = 0

    def names(self, number: int = 0) -> list[bytes]:
        return [b"%02ddc" % number] * len(self.packets)


def stream_header(video: Video, *more: bytes) -> bytes:
    strh = struct.pack(
        "<4s4sIHHIIIIIIiIhhhh", b"vids", video.code, 0, 0, 0, 0, video.scale, video.rate, video.start,
        len(video.packets), 0, -1, 0, 0, 0, video.width, video.height,
    )  # fmt: skip
    strf = struct.pack(
        "<IiiHH4sIiiII", 40 + len(video.extra), video.width, video.height, 1, 24, video.code, 0, 0, 0, 0, 0
    )
    return chunk_list(b"strl", chunk(b"strh", strh), chunk(b"strf", strf + video.extra), *more)


def audio_header() -> bytes:
    strh = struct.pack("<4sIIHHIIIIIIiIhhhh", b"auds", 0, 0, 0, 0, 0, 1, 8000, 0, 0, 0, -1, 1, 0, 0, 0, 0)
    return chunk_list(b"strl", chunk(b"strh", strh), chunk(b"strf", struct.pack("<HHIIHHH", 1, 1, 8000, 8000, 1, 8, 0)))


def header_list(*streams: bytes, flags: int = KEYFRAME) -> bytes:
    avih = struct.pack("<IIIIIIIIII16x", 40000, 0, 0, flags, 0, 0, len(streams), 0, 160, 128)
    return chunk_list(b"hdrl", chunk(b"avih", avih), *streams)


def old_index(names: list[bytes], positions: list[int], packets: list[bytes], keys: list[bool]) -> bytes:
    rows = zip(names, positions, packets, keys, strict=True)
    return chunk(
        b"idx1", b"".join(name + struct.pack("<III", KEYFRAME * key, at, len(data)) for name, at, data, key in rows)
    )


def positions_in(packets: list[bytes], first: int) -> list[int]:
    """The offset of each packet's chunk if they are contiguous."""
    positions = []
    for packet in packets:
        positions.append(first)
        first += 8 + len(packet) + (len(packet) & 1)
    return positions


def with_old_index(video: Video, base: int | None = 4) -> bytes:
    """One RIFF with ``idx1``: offsets start at ``base`` (4 from the list's name), or count from the file's start if
    None."""
    header = header_list(stream_header(video))
    movi = chunk_list(b"movi", *(chunk(name, data) for name, data in zip(video.names(), video.packets, strict=True)))
    first = 12 + len(header) + 12 if base is None else base
    positions = positions_in(list(video.packets), first)
    index = old_index(video.names(), positions, list(video.packets), list(video.keys))
    return riff(b"AVI ", header, movi, index)


def without_index(video: Video) -> bytes:
    movi = chunk_list(b"movi", *(chunk(name, data) for name, data in zip(video.names(), video.packets, strict=True)))
    return riff(b"AVI ", header_list(stream_header(video)), movi)


def with_records(video: Video) -> bytes:
    """Each packet in a ``rec `` list with sound, both of them in the index."""
    header = header_list(stream_header(video), audio_header())
    records, names, positions, packets, keys, at = [], [], [], [], [], 4
    for data, key in zip(video.packets, video.keys, strict=True):
        sound = b"\x80" * 321
        record = chunk_list(b"rec ", chunk(b"01wb", sound), chunk(b"00dc", data))
        names += [b"rec ", b"01wb", b"00dc"]
        positions += [at, *positions_in([sound, data], at + 12)]
        packets += [record[8:], sound, data]
        keys += [False, True, key]
        records.append(record)
        at += len(record)
    return riff(b"AVI ", header, chunk_list(b"movi", *records), old_index(names, positions, packets, keys))


def with_open_dml(video: Video, packets_per_riff: int) -> bytes:
    """A super index in the header, a standard index and a RIFF for some packets each, 64-bit base offsets."""
    parts = [
        range(first, min(first + packets_per_riff, len(video.packets)))
        for first in range(0, len(video.packets), packets_per_riff)
    ]

    def assemble(indexes: list[tuple[int, int]]) -> tuple[bytes, list[tuple[int, int]]]:
        entries = b"".join(
            struct.pack("<QII", at, size, len(part)) for (at, size), part in zip(indexes, parts, strict=True)
        )
        table = struct.pack("<HBBI4s12x", 4, 0, 0, len(parts), b"00dc") + entries
        dmlh = chunk_list(b"odml", chunk(b"dmlh", struct.pack("<I", len(video.packets))))
        header = header_list(stream_header(video, chunk(b"indx", table)), dmlh)
        data, found = b"", []
        for number, part in enumerate(parts):
            before = b"" if number else header
            first = len(data) + 12 + len(before) + 12
            packets = [video.packets[each] for each in part]
            offsets = [at + 8 - first for at in positions_in(packets, first)]
            rows = b"".join(
                struct.pack("<II", offset, len(packet) | (not video.keys[each]) << 31)
                for offset, packet, each in zip(offsets, packets, part, strict=True)
            )
            standard = chunk(b"ix00", struct.pack("<HBBI4sQ4x", 2, 0, 1, len(part), b"00dc", first) + rows)
            chunks = [chunk(b"00dc", packet) for packet in packets]
            found.append((first + sum(map(len, chunks)), len(standard)))
            data += riff(b"AVIX" if number else b"AVI ", before, chunk_list(b"movi", *chunks, standard))
        return data, found

    _, indexes = assemble([(0, 0)] * len(parts))
    return assemble(indexes)[0]


def read_video(path: Path, **changes: object) -> Video:
    """The packets of a file, read by libavformat, for writing in other layouts."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        code = int(stream.codec_context.codec_tag.encode("latin1")[::-1].hex(), 16).to_bytes(4, "little")
        packets = [packet for packet in container.demux(stream) if packet.size]
        fields = {
            "packets": tuple(bytes(packet) for packet in packets),
            "keys": tuple(packet.is_keyframe for packet in packets),
            "code": code,
            "width": stream.codec_context.width,
            "height": stream.codec_context.height,
        }
    return Video(**(fields | changes))  # type: ignore[arg-type]
