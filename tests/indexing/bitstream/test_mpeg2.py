"""MPEG-2 sequence headers: what an encoder was told, and what libavcodec makes of them."""

from fractions import Fraction
from functools import cache

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.mpeg2 import read_sequence_header


def encoded_header(width=160, height=128, pix_fmt="yuv420p", rate=Fraction(25), aspect=Fraction(1)) -> bytes:
    encoder = av.CodecContext.create("mpeg2video", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, pix_fmt
    encoder.framerate, encoder.time_base = rate, 1 / rate
    encoder.sample_aspect_ratio = aspect
    encoder.open()
    frame = av.VideoFrame(width, height, pix_fmt)
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    data = bytes(packets[0])
    return data[: data.index(b"\0\0\1\xb8")]


@pytest.mark.parametrize("size", [(160, 128), (130, 98), (720, 576), (1920, 1080)])
def test_size(size):
    assert read_sequence_header(encoded_header(*size))[:2] == size


def test_size_beyond_twelve_bits():
    header = bytearray(encoded_header())
    extension = header.index(b"\0\0\1\xb5") + 4
    header[extension + 1] |= 1  # horizontal_size_extension 0b11
    header[extension + 2] |= 0x80 | 0x20  # and vertical_size_extension 0b01
    assert read_sequence_header(bytes(header))[:2] == (160 + 0x3000, 128 + 0x1000)


@pytest.mark.parametrize(("pix_fmt", "chroma"), [("yuv420p", "420"), ("yuv422p", "422")])
def test_chroma(pix_fmt, chroma):
    assert read_sequence_header(encoded_header(pix_fmt=pix_fmt)).chroma == chroma


@pytest.mark.parametrize(
    "rate", [Fraction(24000, 1001), Fraction(24), Fraction(25), Fraction(30000, 1001), Fraction(60)]
)
def test_rate(rate):
    assert read_sequence_header(encoded_header(rate=rate)).frame_rate == rate


@pytest.mark.parametrize("aspect", [Fraction(1), Fraction(16, 15), Fraction(64, 45)])
def test_shape_of_a_pixel(aspect):
    """The header holds the shape of the picture: 5:4, 4:3 and 16:9 here."""
    assert read_sequence_header(encoded_header(720, 576, aspect=aspect)).sample_aspect_ratio == aspect


def test_mpeg1_is_not_taken_for_mpeg2():
    header = encoded_header()
    assert read_sequence_header(header[: header.index(b"\0\0\1\xb5")]) is None


@cache
def plain_header() -> bytes:
    return encoded_header()


@given(st.integers(0, 40), st.binary(max_size=12))
def test_damaged_headers(length, tail):
    found = read_sequence_header(plain_header()[:length] + tail)
    assert found is None or (found.width > 0 and found.height > 0)
