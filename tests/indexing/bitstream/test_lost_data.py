"""Packets that lack a part, by their bytes alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sample_videos import Recipe, write_video

from videoloader.indexing import FileSource, build_index
from videoloader.indexing.bitstream.lost_data import has_a_slice_in_each_row, lost_data_check
from videoloader.packets.decode_plan import Run, plan_frames
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


@pytest.mark.parametrize("name", ["mpeg2_mkv", "mpeg2_ts", "hevc_mp4", "hevc_mkv", "ffv1_mkv", "h264_mp4", "h264_ts"])
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


def test_pictures_of_which_some_are_referred_to_and_others_are_not_do():
    check = lost_data_check("h264", b"")
    kept, left, note = b"\0\0\0\x01\x41\x9a\x11", b"\0\0\0\x01\x01\x9a\x11", b"\0\0\0\x01\x06\x05\x80"
    assert check(kept + left)
    assert check(note + left + left + kept)
    assert not check(note + kept + kept)
    assert not check(left + left)


def test_zeros_after_a_unit_with_a_start_code_are_none_of_it():
    check = lost_data_check("hevc", b"")
    unit = b"\0\0\0\x01\x02\x01\xd0\x80\x21"
    assert not check(unit + bytes(5) + unit + bytes(3))
    assert check(unit + bytes(5) + b"\x07" + unit)


def test_slices_that_break_their_checksums_do(packets):
    check, payloads = packets("ffv1_mkv")
    choose = random.Random(0)
    for payload in payloads:
        changed = bytearray(payload)
        changed[choose.randrange(len(payload))] ^= 1 << choose.randrange(8)
        for lacking in (changed, payload[:-1], payload[1:], payload[9:], payload[:4]):
            assert check(memoryview(bytes(lacking)))


@pytest.mark.parametrize(("level", "checksums", "sees_all"), [("3", "0", False), ("3", "1", True), ("4", "2", True)])
def test_slices_of_large_pictures_may_have_none(tmp_path, level, checksums, sees_all):
    options = {"level": level, "slicecrc": checksums, "slices": "4", "strict": "experimental"}
    path = write_video(tmp_path / "large.mkv", Recipe("mkv", "ffv1", options, size=(1280, 720), frames=2))
    index = build_index(path)
    (run,) = plan_frames(index, [0, 1]).runs
    check = lost_data_check("ffv1", index.stream.codec_configs[0])
    for packet in read_packets(FileSource(path), index, run):
        payload = bytes(packet.data)
        assert len(payload) > 4 * 65536
        assert not check(payload)
        assert check(payload[:100_000] + bytes([payload[100_000] ^ 1]) + payload[100_001:]) == sees_all
        assert check(payload[:-1])


@pytest.mark.parametrize("codec", ["vp9", "av1", "mpeg4", "mjpeg", "ffv1"])
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
