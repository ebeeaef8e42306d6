"""The result of a full libav decode of a file, with which everything is compared."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import av
import numpy as np

from videoloader.indexing.sources.local import FileSource
from videoloader.indexing.video_stream import open_video


@dataclass(frozen=True)
class Truth:
    """Timestamps and plane hashes of all frames that libav decodes, up to its first error, if any.

    Hashes that nobody asked for are empty.
    """

    pts: list[int | None]
    hashes: list[bytes]
    error: str


def planes(frame: av.VideoFrame) -> list[np.ndarray]:
    """The samples of each plane without padding: uint8, or uint16 for more than eight bits."""
    deep = max(component.bits for component in frame.format.components) > 8
    arrays = []
    for plane in frame.planes:
        if not plane.line_size:
            arrays.append(np.frombuffer(plane, np.uint8)[None])  # a palette
            continue
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height]
        if frame.format.padded_bits_per_pixel < 8:
            arrays.append(rows[:, : -(-plane.width * frame.format.padded_bits_per_pixel // 8)])
            continue
        samples = rows.view(np.uint16) if deep else rows
        # Packed formats hold several samples a pixel.
        arrays.append(samples[:, : plane.width * (1 if len(frame.planes) > 1 else samples.shape[1] // plane.width)])
    return arrays


def hash_of(frame: av.VideoFrame) -> bytes:
    return hash_planes(planes(frame))


def hash_planes(samples: list[np.ndarray]) -> bytes:
    """A checksum of each plane: it takes a fifth of the time of a cryptographic hash, which is not needed here."""
    return b"".join(crc32(np.ascontiguousarray(plane)).to_bytes(4, "big") for plane in samples)


def full_decode(path: Path, hashed: Container[int] | None = None) -> Truth:
    """Decode a file from its first packet to its last.

    Args:
        path: path of the file.
        hashed: numbers of the frames to hash, which takes about as long as decoding them; None for all.
    """
    pts: list[int | None] = []
    hashes: list[bytes] = []
    try:
        with open_video(FileSource(path)) as (container, stream):
            for packet in container.demux(stream):
                for frame in packet.decode():
                    hashes.append(hash_of(frame) if hashed is None or len(pts) in hashed else b"")
                    pts.append(frame.pts)
    except Exception as error:
        return Truth(pts, hashes, str(error))
    return Truth(pts, hashes, "")
