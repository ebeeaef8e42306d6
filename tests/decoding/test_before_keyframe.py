"""Frames before the first keyframe, which refer to pictures that a decoder makes up."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from read_alone import read_alone
from truth import full_decode

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import build_index, open_source


@pytest.mark.parametrize("container", ["mp4", "mkv", "avi", "ts"])
def test_are_the_same_in_every_read(tmp_path: Path, container: str) -> None:
    """A decoder that has decoded other pictures would make them up otherwise (at sizes between macroblocks)."""
    width, height = 66, 50
    path = tmp_path / f"cut.{container}"
    blocks = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    with av.open(str(path), "w") as target:
        stream = target.add_stream("mpeg4", 25, options={"g": "12"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        packets = []
        for number in range(24):
            picture = blocks[2 * number : 2 * number + height, 3 * number : 3 * number + width]
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")
            frame.pts = number
            packets += stream.encode(frame)
        for packet in [*packets, *stream.encode(None)][1:]:
            target.mux(packet)
    truth, index, decoder = full_decode(path), build_index(path), CpuDecoder()
    assert len(index) == len(truth.hashes) > 12
    for frame in [*range(14), *range(14)]:
        hashed, _, _ = read_alone(open_source(path), index, frame, decoder)
        assert hashed == truth.hashes[frame], frame
