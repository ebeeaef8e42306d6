"""Packets that lack a part, by their bytes alone."""

from __future__ import annotations

import numpy as np
import pytest

from videoloader.indexing import FileSource, build_index
from videoloader.indexing.bitstream.lost_data import has_a_slice_in_each_row, lost_data_check
from videoloader.packets.decode_plan import Run
from videoloader.packets.read_packets import read_packets


@pytest.fixture
def packets(sample):
    """``packets(name)``: what checks a video's packets, and these."""

    def of(name):
        index = build_index(sample(name))
        numbers = np.arange(len(index.packet_size))
        read = read_packets(FileSource(sample(name)), index, Run(numbers, numbers))
        return lost_data_check(index.stream.codec, index.stream.codec_configs[0]), [bytes(each.data) for each in read]

    return of


@pytest.mark.parametrize("name", ["mpeg2_mkv", "mpeg2_ts", "hevc_mp4", "hevc_mkv"])
def test_sound_packets_lack_nothing(packets, name):
    check, payloads = packets(name)
    assert not any(map(check, payloads))
    assert not any(map(check, map(memoryview, payloads)))


@pytest.mark.parametrize("name", ["mpeg2_mkv", "mpeg2_ts"])
def test_pictures_without_slices_do(packets, name):
    check, payloads = packets(name)
    for payload in payloads:
        slices = payload.index(b"\0\0\x01\x01")
        assert check(payload[:slices] + bytes(len(payload) - slices))


def test_units_with_zeros_that_cannot_be_do(packets):
    check, payloads = packets("hevc_mkv")
    for payload in (payload for payload in payloads if len(payload) > 60):
        assert check(payload[:-20] + bytes(20))
        assert check(payload[:-20] + bytes(10) + payload[-10:])


def test_zeros_after_a_unit_with_a_start_code_are_none_of_it():
    check = lost_data_check("hevc", b"")
    unit = b"\0\0\0\x01\x02\x01\xd0\x80\x21"
    assert not check(unit + bytes(5) + unit + bytes(3))
    assert check(unit + bytes(5) + b"\x07" + unit)


@pytest.mark.parametrize("codec", ["h264", "vp9", "av1", "mpeg4", "mjpeg"])
def test_where_libavcodec_tells_there_is_no_check(codec):
    assert lost_data_check(codec, b"") is None


@pytest.mark.parametrize("name", ["mpeg2_mkv", "mpeg2_ts"])
def test_each_row_of_blocks_has_a_slice(sample, name):
    index = build_index(sample(name))
    numbers = np.arange(len(index.packet_size))
    for packet in read_packets(FileSource(sample(name)), index, Run(numbers, numbers)):
        payload, height = bytes(packet.data), index.stream.height
        assert has_a_slice_in_each_row(payload, height)
        assert has_a_slice_in_each_row(memoryview(payload), height)
        last = payload.rindex(b"\0\0\x01")
        second = payload.index(b"\0\0\x01\x02")
        third = payload.index(b"\0\0\x01\x03")
        for lacking in (payload[:last], payload[:second] + payload[third:], payload[:third] + payload[second:]):
            assert not has_a_slice_in_each_row(lacking, height)
