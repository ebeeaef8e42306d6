"""Leaving out every packet that is called disposable changes no other frame."""

import av
import pytest
from sample_videos import RECIPES
from truth import hash_of

from videoloader.indexing.bitstream.disposable import is_disposable

AVCC = bytes([1, 100, 0, 10, 0xFF, 0xE1, 0])
# Streams with packets that nothing depends on, and how many of their 60 packets are such, at least.
WITH_DISPOSABLE = {
    "h264_mp4": 20,
    "h264_mp4_open_gop": 20,
    "h264_mkv": 20,
    "h264_ts": 20,
    "hevc_mp4": 15,
    "hevc_mkv": 15,
    "mpeg2_ts": 30,
    "mpeg2_mkv": 30,
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


def hevc_config(layers, *, length_size=4):
    """A record with one sequence parameter set of so many temporal layers."""
    sps = bytes([33 << 1, 1, (layers - 1) << 1, 0])
    return bytes([1]) + bytes(20) + bytes([length_size - 1, 1, 33, 0, 1, 0, len(sps)]) + sps


def hevc(kind, config, layer=0):
    unit = bytes([kind << 1 | layer >> 5, (layer & 31) << 3 | 1, 0])
    return is_disposable("hevc", config, len(unit).to_bytes(4, "big") + unit)


@pytest.mark.parametrize("kind", range(32))
def test_hevc_knows_by_the_type_of_the_picture(kind):
    assert hevc(kind, hevc_config(1)) is (kind in (0, 2, 4, 6, 8, 10, 12, 14))


def test_hevc_cannot_tell_with_several_layers():
    assert not hevc(0, hevc_config(2))
    assert not hevc(0, hevc_config(1), layer=1)
    assert not hevc(0, hevc_config(1), layer=32)
    assert not hevc(0, hevc_config(1)[:23])


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg2video", "vp9"])
@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\0\0\1\0", b"\0\0\0\2\0", b"\0\0\1\0", b"\0\0\1\0\0"])
def test_a_packet_cut_off_is_not_disposable(codec, payload):
    assert not is_disposable(codec, hevc_config(1) if codec == "hevc" else b"", payload)
