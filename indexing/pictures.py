"""Compare decoded pictures, directly or by hashes."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from operator import eq

import av
import numpy as np

_BLOCK = 64 << 10


def digest_of(frame: av.VideoFrame) -> bytes:
    """Return the hash of a picture: its size, format and samples, without padding at the end of lines."""
    digest = blake2b(repr(_shape(frame)).encode(), digest_size=16)
    for part in _parts(frame):
        digest.update(part)
    return digest.digest()


def are_same(one: av.VideoFrame, other: av.VideoFrame) -> bool:
    """Whether two pictures have the same size, format and samples. Hashing both would take ten times as long."""
    return _shape(one) == _shape(other) and all(map(eq, _parts(one), _parts(other)))


def _shape(frame: av.VideoFrame) -> tuple[str, int, int]:
    return frame.format.name, frame.width, frame.height


def _parts(frame: av.VideoFrame) -> Iterator[bytes]:
    """Yield the samples of each plane, some lines at a time, and the palette."""
    planar = len(frame.planes) > 1 and frame.format.name != "pal8"
    for number, plane in enumerate(frame.planes):
        if frame.format.name == "pal8" and number:
            yield bytes(plane)  # the palette
            continue
        if planar:
            parts = [part for part in frame.format.components if part.plane == number]
            used = sum(part.width * -(-part.bits // 8) for part in parts)
        else:
            used = -(-frame.width * frame.format.padded_bits_per_pixel // 8)
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, abs(plane.line_size))[: plane.height]
        # A block must be small enough for reused memory and for the processor's cache.
        count = max(_BLOCK // used, 1)
        for start in range(0, len(rows), count):
            yield rows[start : start + count, :used].tobytes()
