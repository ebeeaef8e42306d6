"""Leaving out every packet that is called disposable changes no other frame."""

import av
import pytest
from sample_videos import RECIPES
from truth import hash_of

from videoloader.indexing.bitstream.disposable import is_disposable, names_disposable

AVCC = bytes([1, 100, 0, 10, 0xFF, 0xE1, 0])
# Streams with packets that nothing depends on, and how many of their 60 packets are such, at least.
WITH_DISPOSABLE = {
    "h264_mp4": 20,
    "h264_mp4_open_gop": 20,
    "h264_mkv": 20,
    "h264_ts": 20,
    "mpeg2_ts": 30,
    "mpeg2_mkv": 30,
    "mpeg4_avi": 30,
    "mpeg4_mkv": 30,
}


def demux(path):
    """(timestamp, payload) of each packet, decoder name and configuration record."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        config = stream.codec_context.extradata or b""
        packets = [(packet.pts, bytes(packet)) for packet in container.demux(stream) if packet.size]
        return packets, stream.codec_context.codec.canonical_name, config


def decode(packets, codec, config):
    context = av.CodecContext.create(codec, "r")
    context.extradata = config
    context.thread_count = 1
    if codec == "h264":
        context.options = {"has_b_frames": "2"}
    frames = []
    for pts, payload in packets:
        packet = av.Packet(payload)
        packet.pts = pts
        frames += context.decode(packet)
    frames += context.decode(None)
    return {frame.pts: hash_of(frame) for frame in frames}


@pytest.mark.parametrize("name", WITH_DISPOSABLE)
def test_without_disposable_packets_all_other_frames_are_the_same(sample, name):
    packets, codec, config = demux(sample(name))
    needed = [(pts, payload) for pts, payload in packets if not is_disposable(codec, config, payload)]
    assert len(packets) - len(needed) >= WITH_DISPOSABLE[name]
    every = decode(packets, codec, config)
    kept = decode(needed, codec, config)
    assert len(every) == 60
    assert kept == {pts: every[pts] for pts, _ in needed}


@pytest.mark.parametrize("name", sorted(RECIPES.keys() - WITH_DISPOSABLE.keys()))
def test_where_it_cannot_be_told_nothing_is_disposable_that_others_need(sample, name):
    packets, codec, config = demux(sample(name))
    disposable = [payload for _, payload in packets if is_disposable(codec, config, payload)]
    assert not disposable or codec == "h264"


def h264(*units):
    return is_disposable("h264", AVCC, b"".join(len(unit).to_bytes(4, "big") + unit for unit in units))


def test_h264_looks_at_the_first_slice():
    assert h264(b"\x09\xf0", b"\x06\x05", b"\x01\x9a")
    assert not h264(b"\x09\xf0", b"\x41\x9a")
    assert not h264(b"\x21\x9a")
    assert not h264(b"\x65\x88")
    assert not h264(b"\x06\x05")
    assert not h264()


def mpeg2_picture(kind, structure=3):
    """A picture header, its coding extension and the first slice (ISO/IEC 13818-2, 6.2.3)."""
    return b"\0\0\1\0" + bytes([0, kind << 3, 0, 0, 0, 0, 1, 0xB5, 0x81, 0x11, 0x18 | structure, 0, 0, 0, 1, 1])


@pytest.mark.parametrize("kind", range(1, 4))
def test_mpeg2_knows_by_the_type_of_the_picture(kind):
    assert is_disposable("mpeg2video", b"", b"\0\0\1\xb8" + bytes(4) + mpeg2_picture(kind)) is (kind == 3)
    assert is_disposable("mpeg1video", b"", b"\0\0\1\0" + bytes([0, kind << 3, 0, 0])) is (kind == 3)


@pytest.mark.parametrize("first", [1, 2])
def test_mpeg2_fields_are_disposable_together(first):
    both = mpeg2_picture(3, first) + mpeg2_picture(3, 3 - first)
    assert is_disposable("mpeg2video", b"", both)
    assert not is_disposable("mpeg2video", b"", mpeg2_picture(3, first))
    assert not is_disposable("mpeg2video", b"", mpeg2_picture(1, first) + mpeg2_picture(2, 3 - first))
    assert not is_disposable("mpeg2video", b"", mpeg2_picture(3) + mpeg2_picture(2))


def test_h264_packets_of_several_pictures_are_disposable_only_if_all_of_them_are():
    kept, left = b"\x41\x9a\x11", b"\x01\x9a\x11"
    assert h264(left)
    assert h264(left, left)
    for units in ((kept,), (kept, left), (left, kept), (left, left, kept), (b"\x06\x05\x80", left, kept)):
        assert not h264(*units)


def vop(kind):
    return b"\0\0\1\xb6" + bytes([kind << 6, 0x12])


def test_mpeg4_b_pictures_are_disposable_alone_in_their_packet():
    for kind in range(4):
        assert is_disposable("mpeg4", b"", vop(kind)) is (kind == 2)
    assert not is_disposable("mpeg4", b"", vop(1) + vop(2))
    assert not is_disposable("mpeg4", b"", vop(2) + vop(1))


@pytest.mark.parametrize(
    ("writer", "packed"),
    [(b"DivX503b1393p", True), (b"DivX501Build413p", True), (b"DivX503b1393", False), (b"", False)],
)
def test_mpeg4_packed_bitstreams_have_none(writer, packed):
    user_data = b"\0\0\1\xb2" + writer + b"\0"
    assert is_disposable("mpeg4", user_data, vop(2)) is not packed
    assert is_disposable("mpeg4", b"", user_data + vop(2)) is not packed


@pytest.mark.parametrize("codec", ["h264", "mpeg1video", "mpeg2video", "mpeg4", "vp9"])
@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\0\0\1\0", b"\0\0\0\2\0", b"\0\0\1\0", b"\0\0\1\0\0"])
def test_a_packet_cut_off_is_not_disposable(codec, payload):
    assert not is_disposable(codec, b"", payload)


def test_the_codecs_of_these_streams_are_the_ones_whose_headers_tell(sample):
    for name in WITH_DISPOSABLE:
        assert names_disposable(demux(sample(name))[1])
    assert names_disposable("mpeg1video")
    assert not any(map(names_disposable, ("hevc", "vvc", "vp8", "vp9", "av1", "mjpeg")))
