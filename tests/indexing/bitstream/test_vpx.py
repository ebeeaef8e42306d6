"""VP8 and VP9: what the first bytes of packets tell is what libavcodec makes of them."""

from __future__ import annotations

from fractions import Fraction

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.vpx import hides_frame, keyframe_format

# libvpx makes frames that are only referred to where it may look ahead.
LOOK_AHEAD = {"g": "30", "auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "good", "cpu-used": "5", "b": "60k"}
FORMATS = {
    "yuv420p": (8, "420"),
    "yuv422p": (8, "422"),
    "yuv444p": (8, "444"),
    "yuv440p": (8, ""),
    "gbrp": (8, ""),
}


def encode(encoder: str, pix_fmt: str = "yuv420p", size=(160, 128), colorspace: int = 2, color_range: int = 0):
    context = av.CodecContext.create(encoder, "w")
    context.width, context.height, context.pix_fmt, context.time_base = *size, pix_fmt, Fraction(1, 25)
    context.options = LOOK_AHEAD
    context.colorspace, context.color_range = colorspace, color_range
    packets = []
    for number in range(30):
        frame = av.VideoFrame(*size, "rgb24")
        plane = frame.planes[0]
        plane.update(bytes((at // 3 + 5 * number) % 256 for at in range(plane.line_size)) * plane.height)
        frame.pts = number
        packets += context.encode(frame.reformat(format=pix_fmt))
    return [bytes(packet) for packet in [*packets, *context.encode(None)]]


@pytest.mark.parametrize("codec", ["vp8", "vp9"])
def test_hidden_frames_are_those_that_do_not_come_out(codec):
    packets = encode({"vp8": "libvpx", "vp9": "libvpx-vp9"}[codec])
    decoder = av.CodecContext.create(codec, "r")
    hidden = [not decoder.decode(av.Packet(packet)) for packet in packets]
    assert [hides_frame(codec, packet[0], packet[-1]) for packet in packets] == hidden


def test_hidden_frames_in_real_files(corpus):
    path = corpus / "vp9-10bit-altref__media__roadtrip-vp92-10bit.webm"
    index = build_index(path)
    assert (len(index.packet_size), len(index)) == (80, 72)


@pytest.mark.parametrize("pix_fmt", FORMATS)
@pytest.mark.parametrize(("space", "matrix"), [(1, 1), (5, 5), (2, 2), (9, 9)])
@pytest.mark.parametrize("full", [1, 2])
def test_the_picture_of_vp9_is_that_of_its_keyframe(pix_fmt, space, matrix, full):
    first = encode("libvpx-vp9", pix_fmt, (162, 122), space, full)[0]
    picture = keyframe_format("vp9", first)
    assert (picture.width, picture.height) == (162, 122)
    assert (picture.bit_depth, picture.chroma) == FORMATS[pix_fmt]
    if pix_fmt == "gbrp":
        assert (picture.color_matrix, picture.full_range) == (0, True)
    else:
        assert (picture.color_matrix, picture.full_range) == (matrix, full == 2)


def test_the_picture_of_vp8_is_that_of_its_keyframe():
    first, second, *_ = encode("libvpx", size=(161, 121))
    picture = keyframe_format("vp8", first)
    assert (picture.width, picture.height, picture.bit_depth, picture.chroma) == (161, 121, 8, "420")
    assert keyframe_format("vp8", second) is None


def test_vp9_of_ten_bits(corpus):
    stream = build_index(corpus / "vp9-10bit-altref__media__roadtrip-vp92-10bit.webm").stream
    assert (stream.bit_depth, stream.chroma, stream.color_matrix, stream.color_range) == (10, "420", 9, "limited")


def test_frames_between_keyframes_tell_nothing(sample):
    index, source = build_index(sample("vp9_webm")), open_source(sample("vp9_webm"))
    packets = zip(index.packet_offset.tolist(), index.packet_size.tolist(), index.packet_key.tolist(), strict=True)
    assert all((keyframe_format("vp9", source.read(at, size)) is not None) == key for at, size, key in packets)


@given(st.sampled_from(["vp8", "vp9", "h264"]), st.binary(max_size=40))
def test_noise_is_no_picture_or_some_picture(codec, noise):
    picture = keyframe_format(codec, noise)
    assert picture is None or (codec != "h264" and picture.width < 1 << 17)
