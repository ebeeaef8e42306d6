"""Pictures that refer to no other are told by the first bytes of their packets, as encoders write them."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.intra_pictures import HEAD_READERS
from videoloader.indexing.bitstream.jpeg import WITHOUT_LENGTH, has_own_tables, iterate_segments
from videoloader.indexing.bitstream.random_access import is_intra_only, is_random_access

ENCODERS = {
    "h263": "yuv420p",
    "h263p": "yuv420p",
    "flv": "yuv420p",
    "msmpeg4v2": "yuv420p",
    "msmpeg4": "yuv420p",
    "wmv1": "yuv420p",
    "wmv2": "yuv420p",
    "svq1": "yuv410p",
    "ffv1": "yuv420p",
    "snow": "yuv420p",
    "zmbv": "bgr0",
}


def encode(encoder: str, pixels: str, size: tuple[int, int] = (128, 96)) -> tuple[str, bytes, list[tuple[bytes, bool]]]:
    """(decoder's name, configuration record, (bytes, whether the encoder calls it a keyframe) of each packet)."""
    context = av.CodecContext.create(encoder, "w")
    context.width, context.height = size
    context.pix_fmt, context.time_base, context.gop_size = pixels, Fraction(1, 25), 5
    context.options = {"strict": "-2"}
    packets = []
    for number in range(12):
        picture = np.roll(np.add.outer(np.arange(size[1]) * 3, np.arange(size[0]) * 2) % 256, number, 1)
        frame = av.VideoFrame.from_ndarray(np.repeat(picture[..., None], 3, 2).astype(np.uint8), "rgb24")
        frame = frame.reformat(format=pixels)
        frame.pts = number
        packets += context.encode(frame)
    packets += context.encode(None)
    name = context.codec.canonical_name
    return name, context.extradata or b"", [(bytes(packet), packet.is_keyframe) for packet in packets]


@pytest.mark.parametrize(("encoder", "pixels"), ENCODERS.items())
def test_encoders_keyframes_are_told_from_other_packets(encoder, pixels):
    codec, config, packets = encode(encoder, pixels)
    assert [is_random_access(codec, config, data) for data, _ in packets] == [key for _, key in packets]
    assert {key for _, key in packets} == {True, False}


def test_sizes_of_their_own_stand_before_the_picture_type_of_flv1():
    for size in [(64, 48), (128, 96), (300, 20), (320, 240)]:
        codec, config, packets = encode("flv", "yuv420p", size)
        assert [is_random_access(codec, config, data) for data, _ in packets] == [key for _, key in packets]


@pytest.mark.parametrize(
    ("codec", "start", "other"),
    [
        ("msmpeg4v1", b"\0\0\1\0\0\0", b"\0\0\1\0\2\0"),
        ("theora", b"\x00", b"\x40"),
        ("theora", b"\x3f", b""),
        ("vp3", b"\x7f", b"\x80"),
        ("vp5", b"\x7f", b"\x80"),
        ("vp6", b"\x7f", b"\x80"),
        ("vp6f", b"\x7f", b"\x80"),
        ("vp6a", b"\xff\xff\xff\x7f", b"\0\0\0\x80"),
        ("vp7", b"\xfe", b"\x01"),
        ("indeo4", b"\xf8\xff\x03", b"\xf8\xff\x0b"),
        ("indeo5", b"\x1f", b"\x3f"),
    ],
)
def test_headers_of_codecs_without_an_encoder_here(codec, start, other):
    assert is_random_access(codec, b"", start) is True
    assert is_random_access(codec, b"", other) is False


@pytest.mark.parametrize("codec", HEAD_READERS)
@given(payload=st.binary(max_size=60))
def test_any_bytes_have_an_answer(codec, payload):
    assert is_random_access(codec, b"", payload) in (True, False)


def segment(kind: int, body: bytes = b"") -> bytes:
    return bytes([0xFF, kind]) + (len(body) + 2).to_bytes(2, "big") + body


# Tables 0 and 1 for samples of 8 bits; codes for DC and AC coefficients; frames and scans of components 1 and 2.
QUANTIZATION = [segment(0xDB, bytes([number]) + bytes(64)) for number in (0, 1)]
DC, AC = ([segment(0xC4, bytes([kind | number, 1]) + bytes(16)) for number in (0, 1)] for kind in (0, 16))
FRAME, PROGRESSIVE, LOSSLESS = (
    segment(kind, b"\x08\0\x10\0\x10\x02" + b"\x01\x11\0" + b"\x02\x11\x01") for kind in (0xC0, 0xC2, 0xC3)
)
SCAN = segment(0xDA, b"\x02" + b"\x01\0" + b"\x02\x11" + b"\0\x3f\0") + b"\xff\xdb\xff\xc4"
ALL_TABLES = [*QUANTIZATION, *DC, *AC]


def jpeg(*segments: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segments)


def test_a_jpeg_picture_starts_with_tables_of_its_own():
    assert has_own_tables(jpeg(*ALL_TABLES, FRAME, SCAN))
    together = segment(0xDB, b"".join(each[4:] for each in QUANTIZATION))
    assert has_own_tables(jpeg(together, segment(0xC4, b"".join(each[4:] for each in DC + AC)), FRAME, SCAN))
    assert has_own_tables(jpeg(segment(0xDB, b"\x10" + bytes(128)), *ALL_TABLES[1:], FRAME, SCAN))
    assert has_own_tables(jpeg(*QUANTIZATION, *DC, PROGRESSIVE, SCAN))
    assert has_own_tables(jpeg(*DC, LOSSLESS, SCAN))
    thumbnail = segment(0xE1, jpeg(*ALL_TABLES, FRAME, SCAN))
    assert not has_own_tables(jpeg(thumbnail, FRAME, SCAN))
    assert has_own_tables(jpeg(thumbnail, b"\xff\xff", *ALL_TABLES, FRAME, SCAN))


@pytest.mark.parametrize("missing", range(6))
def test_one_table_less_is_taken_from_an_earlier_picture(missing):
    assert not has_own_tables(jpeg(*ALL_TABLES[:missing], *ALL_TABLES[missing + 1 :], FRAME, SCAN))


def test_a_jpeg_picture_that_ends_before_its_samples_may_still_bring_tables():
    assert has_own_tables(jpeg(*ALL_TABLES, FRAME)) is None
    assert has_own_tables(jpeg(*QUANTIZATION, FRAME, SCAN)) is False


@given(
    st.lists(st.sampled_from([0xFF, 0xFF, 0xFF, 0, 1, 2, 3, 0x0A, 0xC4, 0xD0, 0xD8, 0xD9, 0xE0]), max_size=40).map(
        bytes
    )
)
def test_segments_of_a_jpeg_picture_are_where_a_walk_byte_by_byte_finds_them(picture):
    expected, position = [], 0
    while position < len(picture) - 3:
        kind = picture[position + 1]
        if picture[position] != 0xFF or kind in (0, 0xFF):
            position += 1
        elif kind in WITHOUT_LENGTH:
            position += 2
        else:
            expected.append((kind, position))
            position += 2 + int.from_bytes(picture[position + 2 : position + 4], "big")
    assert [*iterate_segments(picture)] == [*iterate_segments(memoryview(picture))] == expected


def test_libavcodec_knows_which_codecs_are_nothing_but_keyframes():
    assert all(map(is_intra_only, ["mjpeg", "rawvideo", "huffyuv", "prores", "dvvideo"]))
    assert not any(map(is_intra_only, ["h264", "qtrle", "png", "ffv1", "mss2", "no codec at all"]))
    assert is_random_access("prores", b"", b"anything") is True


@pytest.mark.parametrize("codec", ["qtrle", "rpza", "smc", "cinepak", "vc1", "no codec at all"])
def test_nothing_is_said_of_codecs_whose_headers_are_not_read(codec):
    assert is_random_access(codec, b"", b"anything") is None
