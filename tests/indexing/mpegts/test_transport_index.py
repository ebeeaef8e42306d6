"""Transport streams of every shape: the packets are libavformat's, the frames those of a full decode."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transport_samples import SHAPES, WRAP, split, to_204, with_program
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, MemorySource, VideoIndex, build_index
from videoloader.indexing.bitstream.disposable import is_disposable
from videoloader.indexing.bitstream.hevc_parameter_sets import has_one_layer
from videoloader.indexing.bitstream.nal import iterate_nals
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.indexing.index import DISPOSABLE_YES
from videoloader.indexing.libav import index_by_demuxing
from videoloader.indexing.mpegts import scan
from videoloader.indexing.mpegts.extract import read_transport_packets
from videoloader.indexing.mpegts.index import index_mpegts
from videoloader.indexing.video_stream import open_video
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

each_shape = pytest.mark.parametrize("name", SHAPES)
# Shapes that libavformat indexes: of MPEG-1 nothing here knows the headers.
LEFT_TO_LIBAV = {"mpeg1"}
OURS = [name for name in SHAPES if name not in LEFT_TO_LIBAV]


def demux(source):
    with open_video(source) as (container, stream):
        return [(bytes(packet), packet.pts, packet.is_keyframe) for packet in container.demux(stream) if packet.size]


def packets_of(source, index):
    return [bytes(data) for data in read_transport_packets(source, index, np.arange(len(index.packet_size)))]


def assert_same_index(index: VideoIndex, other: VideoIndex):
    for field in fields(VideoIndex):
        if field.name != "source":
            assert np.array_equal(getattr(index, field.name), getattr(other, field.name)), field.name


@pytest.mark.parametrize("text", [b"skip", b"moov", b"free"])
def test_a_first_packet_may_hold_what_looks_like_a_box(transport, text):
    data = transport(OURS[0]).read_bytes()
    index = build_index(MemorySource(b"\x47\x1f\xff\x10" + text + b"\xff" * 180 + data))
    assert index.frame_pts.tolist() == build_index(MemorySource(data)).frame_pts.tolist()


@pytest.mark.parametrize("name", OURS)
def test_packets_are_those_of_libavformat(transport, name):
    source = FileSource(transport(name))
    index = index_mpegts(source)
    expected = demux(source)
    assert packets_of(source, index) == [data for data, _, _ in expected]
    assert index.packet_pts.tolist() == [pts for _, pts, _ in expected]
    # Of what libavformat calls a keyframe those at which decoding can start.
    config = index.stream.codec_configs[0]
    true = [key and is_random_access(index.stream.codec, config, data) for data, _, key in expected]
    assert index.packet_key.tolist() == true


@each_shape
def test_frames_are_those_of_a_full_decode(transport, name):
    truth = full_decode(transport(name))
    source = FileSource(transport(name))
    index = build_index(source)
    assert index.frame_pts.tolist() == truth.pts
    decoder, frames = CpuDecoder(), random.Random(name).sample(range(len(index)), 6)
    for frame in [0, len(index) - 1, *frames]:
        found: dict[int, bytes] = {}
        for run in plan_frames(index, [frame]).runs:
            decoder.decode(
                index,
                read_packets(source, index, run),
                lambda packet, image, found=found: found.update({packet: hash_of(image)}),
            )
        assert found[int(index.frame_packet[frame])] == truth.hashes[frame]


@each_shape
def test_the_stream_is_described_as_libavformat_does(transport, name):
    source = FileSource(transport(name))
    found, expected = build_index(source).stream, index_by_demuxing(source).stream
    # What decoders need of codecs without headers of their own.
    assert replace(found, codec_tag="", pixel_format="") == replace(expected, codec_tag="", pixel_format="")


@pytest.mark.parametrize("name", OURS)
def test_no_frame_is_decoded_for_the_index(transport, name):
    index = build_index(transport(name))
    assert (index.method, index.byte_ranges, index.container) == ("demuxed", False, "mpegts")
    assert index.transport is not None


def is_sub_layer_non_reference(data: bytes) -> bool:
    """Whether the first slice says so (ITU-T H.265, table 7-1); in one temporal layer nothing depends on it then."""
    kinds = [data[start] >> 1 & 63 for start, _ in iterate_nals(data, 0)]
    return next(kind for kind in kinds if kind < 32) in range(0, 16, 2)


@pytest.mark.parametrize("name", OURS)
def test_disposable_packets_are_those_whose_bytes_say_so(transport, name):
    source = FileSource(transport(name))
    index = build_index(source)
    codec, config = index.stream.codec, index.stream.codec_configs[0]
    if codec == "hevc":
        disposable = [has_one_layer(config) and is_sub_layer_non_reference(data) for data, _, _ in demux(source)]
    else:
        disposable = [is_disposable(codec, config, data) for data, _, _ in demux(source)]
    assert (index.packet_disposable == DISPOSABLE_YES).tolist() == disposable


@settings(max_examples=examples(30))
@given(
    st.sampled_from(["h264_sound", "h264_slices", "h264_m2ts", "hevc_sound", "mpeg2", "h264_tiny", "h264_large"]),
    st.data(),
)
def test_it_is_the_same_however_the_file_is_cut_into_pieces(transport, name, data):
    source = FileSource(transport(name))
    whole = index_mpegts(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_PIECE", 188 * data.draw(st.integers(60, 400)))
        patch.setattr(scan, "_HEAD", 188 * 50)
        assert_same_index(index_mpegts(source), whole)


@pytest.mark.parametrize("name", ["h264_sound", "hevc", "mpeg2_no_b"])
def test_packets_with_room_for_error_correction(transport, name):
    plain, source = FileSource(transport(name)), MemorySource(to_204(transport(name).read_bytes()))
    index = index_mpegts(source)
    assert index.transport.stride == 204
    assert packets_of(source, index) == [data for data, _, _ in demux(source)]
    assert index.frame_pts.tolist() == index_mpegts(plain).frame_pts.tolist()


@pytest.mark.parametrize(("first", "second"), [("h264", "h264_large"), ("h264_large", "h264"), ("mpeg2", "hevc")])
def test_of_two_programs_the_stream_that_libavformat_takes(transport, first, second):
    source = MemorySource(with_program(transport(first).read_bytes(), transport(second).read_bytes()))
    index = build_index(source)
    with open_video(source) as (_, stream):
        assert index.stream.codec == stream.codec_context.codec.canonical_name
        assert (index.stream.width, index.stream.height) == (stream.width, stream.height)
    expected = demux(source)
    assert index.packet_pts.tolist() == [pts for _, pts, _ in expected]
    if index.transport:
        assert packets_of(source, index) == [data for data, _, _ in expected]


@pytest.mark.parametrize("distance", [1, 3600, 40_000, 59 * 90_000, 61 * 90_000, 300 * 90_000])
def test_the_clock_wraps_where_libavformat_lets_it(transport, distance):
    """The same stream with its timestamps moved, so that the first lies ``distance`` before the clock wraps."""
    moved = []
    for packet in split(transport("h264").read_bytes()):
        at = 4 + (packet[4] + 1 if packet[3] & 0x20 else 0)
        if packet[1] & 0x40 and packet[at : at + 4] == b"\0\0\1\xe0":
            packet = bytearray(packet)
            for field in [at + 9, at + 14][: 2 if packet[at + 7] & 0x40 else 1]:
                time = (_read_time(packet[field : field + 5]) + WRAP - distance) % WRAP
                packet[field : field + 5] = _time(packet[field] >> 4, time)
        moved.append(bytes(packet))
    source = MemorySource(b"".join(moved))
    index = index_mpegts(source)
    assert index.packet_pts.tolist() == [pts for _, pts, _ in demux(source)]
    assert (np.diff(index.frame_pts) == 3600).all()


def _read_time(field: bytes) -> int:
    return (field[0] >> 1 & 7) << 30 | (field[1] << 8 | field[2]) >> 1 << 15 | (field[3] << 8 | field[4]) >> 1


def _time(prefix: int, time: int) -> bytes:
    high, middle, low = time >> 30, time >> 15 & 0x7FFF, time & 0x7FFF
    return (
        bytes([prefix << 4 | high << 1 | 1]) + (middle << 1 | 1).to_bytes(2, "big") + (low << 1 | 1).to_bytes(2, "big")
    )


def test_without_a_keyframe_at_the_start_a_decode_tells_and_packets_are_still_read_by_position(transport):
    packets = split(transport("h264_sound").read_bytes())
    second = [number for number, packet in enumerate(packets) if packet[1] & 0x41 == 0x41 and packet[2] == 0][3]
    source = MemorySource(b"".join(packets[:3] + packets[second:]))
    index = build_index(source)
    assert index.method == "decoded"
    assert packets_of(source, index) == [data for data, _, _ in demux(source)]


def test_timestamps_on_some_packets_only_are_left_to_libavformat(transport):
    packets = split(transport("mpeg2").read_bytes())
    starts = [number for number, packet in enumerate(packets) if packet[1] & 0x41 == 0x41 and packet[2] == 0]
    for number in starts[2::3]:
        packet = bytearray(packets[number])
        at = 4 + (packet[4] + 1 if packet[3] & 0x20 else 0)
        packet[at + 7] &= 0x3F  # the fields stay, as stuffing
        packets[number] = bytes(packet)
    source = MemorySource(b"".join(packets))
    index = build_index(source)
    assert len(index) == SHAPES["mpeg2"].frames
    assert packets_of(source, index) == [data for data, _, _ in demux(source)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda packets: [*packets[:40], b"lost", *packets[40:]],
        lambda packets: [*packets[:40], packets[40][:3] + b"\x90" + packets[40][4:], *packets[41:]],
        lambda packets: packets[:2],
        lambda packets: [packet for packet in packets if packet[1:3] not in (b"\x50\0", b"\x40\0")],
    ],
    ids=["sync lost", "scrambled", "too short", "no tables"],
)  # fmt: skip
def test_what_only_libavformat_can_tell(transport, spoil):
    packets = split(transport("h264_large").read_bytes())
    first = next(number for number, packet in enumerate(packets) if packet[1] & 0x1F == 1)
    assert first < 40
    assert index_mpegts(MemorySource(b"".join(spoil(packets)))) is None


@pytest.mark.parametrize("content", [b"", b"\x47", b"\x47" * 5000, b"GIF89a" * 500, bytes(5000)])
def test_what_is_no_transport_stream(content):
    assert index_mpegts(MemorySource(content)) is None
