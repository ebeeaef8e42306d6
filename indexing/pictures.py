"""Decoded pictures compared by a few bytes each."""

from __future__ import annotations

from hashlib import blake2b

import av
import numpy as np


def digest_of(frame: av.VideoFrame) -> bytes:
    """The hash of a picture: its size, its format and its samples, without what pads its lines."""
    digest = blake2b(f"{frame.format.name} {frame.width} {frame.height}".encode(), digest_size=16)
    planar = len(frame.planes) > 1 and frame.format.name != "pal8"
    for number, plane in enumerate(frame.planes):
        if frame.format.name == "pal8" and number:
            digest.update(memoryview(plane))  # the palette
            continue
        if planar:
            parts = [part for part in frame.format.components if part.plane == number]
            used = sum(part.width * -(-part.bits // 8) for part in parts)
        else:
            used = -(-frame.width * frame.format.padded_bits_per_pixel // 8)
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, abs(plane.line_size))[: plane.height]
        digest.update(rows[:, :used].tobytes())
    return digest.digest()
