"""Which JPEG pictures are what JFIF says, and which libavcodec takes for something else."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from videoloader.indexing.bitstream.jpeg import has_usual_colors


def jpeg(mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 56, 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", subsampling=0, **options)
    return file.getvalue()


def with_segment(data: bytes, kind: int, content: bytes) -> bytes:
    return data[:2] + bytes([0xFF, kind]) + (len(content) + 2).to_bytes(2, "big") + content + data[2:]


def with_components(data: bytes, names: bytes) -> bytes:
    changed = bytearray(data)
    frame, scan = changed.index(b"\xff\xc0"), changed.index(b"\xff\xda")
    changed[frame + 10 : frame + 19 : 3] = names
    changed[scan + 5 : scan + 11 : 2] = names
    return bytes(changed)


def adobe(transform: int) -> bytes:
    return b"Adobe\0\x64\0\0\0\0" + bytes([transform])


PICTURES = {
    "baseline": (jpeg(), "yuvj444p"),
    "progressive": (jpeg(progressive=True), "yuvj444p"),
    "gray": (jpeg("L"), "gray"),
    "Adobe's YCbCr": (with_segment(jpeg(), 0xEE, adobe(1)), "yuvj444p"),
    "Adobe's RGB": (with_segment(jpeg(), 0xEE, adobe(0)), "gbrp"),
    "RGB by name": (with_components(jpeg(), b"RGB"), "gbrp"),
    "a comment": (with_segment(jpeg(), 0xFE, b"holidays"), "yuvj444p"),
    "studio range": (with_segment(jpeg(), 0xFE, b"CS=ITU601"), "yuv444p"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_usual_colors_are_those_that_libavcodec_finds(name: str) -> None:
    data, pixels = PICTURES[name]
    decoder = av.CodecContext.create("mjpeg", "r")
    (frame,) = [*decoder.decode(av.Packet(data)), *decoder.decode(None)]
    assert frame.format.name == pixels
    assert has_usual_colors(data) == (pixels in ("yuvj444p", "gray"))


def test_nothing_is_known_of_a_picture_without_a_frame_header() -> None:
    data = jpeg()
    header = data.index(b"\xff\xc0")
    assert has_usual_colors(data[: header + 20])
    for end in range(header):
        assert not has_usual_colors(data[:end])
    assert not has_usual_colors(data[:header] + data[header + 19 :])
