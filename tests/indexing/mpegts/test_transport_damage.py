"""Damaged transport streams: libavformat's packets, or none of ours; soon, and never an error of Python's."""

from __future__ import annotations

import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transport_samples import split, with_checksum
from waiting import within_processor_seconds

from videoloader import Video
from videoloader.errors import VideoLoaderError
from videoloader.indexing import MemorySource
from videoloader.indexing.mpegts.extract import read_transport_packets
from videoloader.indexing.mpegts.index import index_mpegts
from videoloader.indexing.video_stream import open_video

SAMPLES = ["h264_sound", "h264_slices", "h264_m2ts", "h264_with_lengths", "hevc_sound", "hevc_slices", "mpeg2_no_b"]
LONGEST = 5  # seconds
each_sample = pytest.mark.parametrize("name", ["h264_sound", "hevc", "mpeg2"])


def check(data: bytes) -> None:
    """The index, if there is one, has libavformat's packets; reading frames gives them or an error of ours."""
    source = MemorySource(data, "damaged.ts")
    try:
        with within_processor_seconds(LONGEST):
            index = index_mpegts(source)
    except VideoLoaderError as error:
        if not str(error).startswith("damaged.ts: "):
            raise
        return
    if index is None or not index.transport:
        return
    try:
        with open_video(source) as (container, stream):
            expected = [(bytes(packet), packet.pts) for packet in container.demux(stream) if packet.size]
    except VideoLoaderError:
        return  # PyAV does not follow where streams begin on the way
    packets = read_transport_packets(source, index, np.arange(len(index.packet_size)))
    assert [bytes(packet) for packet in packets] == [packet for packet, _ in expected]
    if index.method == "demuxed":
        shown = index.packet_has_frame
        assert index.packet_pts[shown].tolist() == [pts for (_, pts), has in zip(expected, shown, strict=True) if has]
    try:
        video = Video(source, device="cpu")
        video[0], video[-1]
    except VideoLoaderError as error:
        if not str(error).startswith("damaged.ts: "):
            raise


@each_sample
def test_cut_off_at_every_transport_packet(transport, name):
    packets = split(transport(name).read_bytes())
    for count in range(len(packets) - 60, len(packets)):
        check(b"".join(packets[:count]))


@settings(max_examples=examples(40))
@given(name=st.sampled_from(SAMPLES), data=st.data())
def test_cut_off_anywhere(transport, name, data):
    content = transport(name).read_bytes()
    check(content[: data.draw(st.integers(1, len(content)))])


@settings(max_examples=examples(40))
@given(name=st.sampled_from(SAMPLES), data=st.data())
def test_begun_anywhere(transport, name, data):
    packets = split(transport(name).read_bytes())
    check(b"".join(packets[data.draw(st.integers(1, len(packets) - 1)) :]))


@settings(max_examples=examples(60))
@given(name=st.sampled_from(SAMPLES), data=st.data())
def test_packets_lost_and_repeated(transport, name, data):
    packets = split(transport(name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packets) - 1))
        packets[at : at + 1] = data.draw(st.sampled_from([[], [packets[at]] * 2]))
    check(b"".join(packets))


@settings(max_examples=examples(80))
@given(name=st.sampled_from(SAMPLES), data=st.data())
def test_flipped_bits_in_headers(transport, name, data):
    packets = split(transport(name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(packets) - 1))
        packet = bytearray(packets[at])
        packet[data.draw(st.integers(0, 23))] ^= 1 << data.draw(st.integers(0, 7))
        packets[at] = bytes(packet)
    check(b"".join(packets))


@settings(max_examples=examples(40))
@given(data=st.data())
def test_wild_program_maps(transport, data):
    """Program maps with any content and a right checksum."""
    packets = split(transport("h264_sound").read_bytes())
    at = next(number for number, packet in enumerate(packets) if packet[1:3] == b"\x50\0")
    size = packets[at][7]
    section = bytearray(packets[at][5 : 5 + size + 3 - 4])
    for _ in range(data.draw(st.integers(1, 6))):
        section[data.draw(st.integers(3, len(section) - 1))] = data.draw(st.integers(0, 255))
    packets[at] = packets[at][:5] + with_checksum(bytes(section)) + packets[at][5 + size + 3 :]
    check(b"".join(packets))


def test_a_program_map_with_an_entry_longer_than_itself_is_left_to_libavformat(transport):
    packets = split(transport("h264_sound").read_bytes())
    at = next(number for number, packet in enumerate(packets) if packet[1:3] == b"\x50\0")
    size = packets[at][7]
    section = bytearray(packets[at][5 : 5 + size + 3 - 4])
    section[12], section[15] = 0x01, 0x01  # stream_type and the upper bits of ES_info_length of the video
    packets[at] = packets[at][:5] + with_checksum(bytes(section)) + packets[at][5 + size + 3 :]
    assert index_mpegts(MemorySource(b"".join(packets), "damaged.ts")) is None


@pytest.mark.parametrize("filling", [b"\x47\x41\0\x10", b"\x47\x01\0\x10", b"\x47\x1f\xff\x10", b"\x47\x40\0\x10"])
def test_large_files_of_little_sense_end_soon(transport, filling):
    head = b"".join(split(transport("h264").read_bytes())[:30])
    check(head + (filling + bytes(184)) * 30_000)
