"""Decoded pictures: the same where their size, format and samples are, whatever pads their lines."""

from __future__ import annotations

import av
import numpy as np
import pytest

from videoloader.indexing.pictures import are_same, digest_of


def picture(pixel_format: str, width: int, height: int, seed: int = 0) -> av.VideoFrame:
    rng = np.random.default_rng(seed)
    frame = av.VideoFrame(width, height, pixel_format)
    for plane in frame.planes:
        plane.update(rng.bytes(plane.buffer_size))
    return frame


@pytest.mark.parametrize("size", [(16, 16), (34, 18), (1000, 700)])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p10le", "nv12", "rgb24", "gray", "monob"])
def test_pictures_are_the_same_where_their_hashes_are(pixel_format, size):
    one, again, other = (picture(pixel_format, *size, seed) for seed in (0, 0, 1))
    assert are_same(one, again)
    assert digest_of(one) == digest_of(again)
    assert not are_same(one, other)
    assert digest_of(one) != digest_of(other)


def test_the_last_sample_counts():
    pixels = np.zeros((700, 1000), np.uint8)
    one = av.VideoFrame.from_ndarray(pixels, "gray")
    pixels[-1, -1] = 1
    assert not are_same(one, av.VideoFrame.from_ndarray(pixels, "gray"))


def test_what_pads_lines_does_not_count():
    one, other = picture("gray", 34, 18), picture("gray", 34, 18)
    lines = np.frombuffer(other.planes[0], np.uint8).reshape(-1, other.planes[0].line_size).copy()
    lines[:, 34:] = 255
    other.planes[0].update(lines)
    assert are_same(one, other)
    assert digest_of(one) == digest_of(other)


def test_size_and_format_count():
    assert not are_same(picture("yuv420p", 32, 16), picture("yuv420p", 16, 32))
    assert not are_same(picture("rgb24", 16, 16), picture("bgr24", 16, 16))
