"""Packets and parameter sets with start codes hold the same NAL units, and decode to the same frames."""

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth import full_decode, hash_of

from videoloader.decoding.annexb import annex_b_headers, to_annex_b
from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

START_CODE = b"\0\0\0\1"
nals = st.lists(st.binary(min_size=1, max_size=50), max_size=6)
sets = st.lists(st.binary(min_size=1, max_size=30), max_size=3)


def with_lengths(units, size):
    return b"".join(len(unit).to_bytes(size, "big") + unit for unit in units)


@given(nals, st.sampled_from([1, 2, 3, 4]), st.booleans())
def test_each_length_becomes_a_start_code(units, size, as_view):
    payload = with_lengths(units, size)
    converted = to_annex_b(memoryview(payload) if as_view else payload, size)
    assert bytes(converted) == b"".join(START_CODE + unit for unit in units)


@given(nals.filter(bool), st.sampled_from([1, 2, 4]), st.data())
def test_a_unit_cut_off_is_left_out(units, size, data):
    payload = with_lengths(units, size)
    cut = to_annex_b(payload[: data.draw(st.integers(0, len(payload) - 1))], size)
    assert b"".join(START_CODE + unit for unit in units[:-1]).startswith(bytes(cut))


def test_the_packet_given_is_left_as_it_is():
    payload = bytearray(with_lengths([b"abc"], 4))
    to_annex_b(payload, 4)
    assert payload == with_lengths([b"abc"], 4)
    assert to_annex_b(payload, 0) is payload


@given(sets, sets, st.binary(max_size=4))
def test_sets_of_an_avcc_record(sps, pps, rest):
    record = bytes([1, 100, 0, 10, 0xFF, 0xE0 | len(sps)]) + with_lengths(sps, 2)
    record += bytes([len(pps)]) + with_lengths(pps, 2) + rest
    assert annex_b_headers("h264", record) == b"".join(START_CODE + each for each in sps + pps)


@given(st.lists(st.tuples(st.integers(32, 40), sets), max_size=4))
def test_sets_of_an_hvcc_record(arrays):
    record = bytes([1]) + bytes(20) + bytes([3, len(arrays)])
    for kind, units in arrays:
        record += bytes([kind]) + len(units).to_bytes(2, "big") + with_lengths(units, 2)
    assert annex_b_headers("hevc", record) == b"".join(START_CODE + unit for _, units in arrays for unit in units)


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4"])
def test_records_with_start_codes_are_taken_as_they_are(codec):
    assert annex_b_headers(codec, START_CODE + b"\x67abcdefgh" * 4) == START_CODE + b"\x67abcdefgh" * 4


def test_other_codecs_have_no_annex_b_headers():
    assert annex_b_headers("vp9", b"\1\2\3") == b""
    assert annex_b_headers("av1", b"\x81\0\0\0") == b""


@given(st.sampled_from(["h264", "hevc"]), st.binary(max_size=60))
def test_a_damaged_record_is_no_error(codec, record):
    annex_b_headers(codec, b"\1" + record)


@pytest.mark.parametrize("name", ["h264_mp4", "h264_mp4_open_gop", "h264_mkv", "hevc_mp4", "hevc_mkv"])
def test_fed_with_start_codes_a_decoder_gives_the_same_frames(sample, name):
    source, index = open_source(sample(name)), build_index(sample(name))
    codec, config = index.stream.codec, index.stream.codec_configs[0]
    length_size = nal_length_size(codec, config)
    assert length_size == 4
    decoder = av.CodecContext.create(codec, "r")  # knows nothing but what the packets say
    decoder.thread_count = 1
    frames = []
    for number, (offset, size) in enumerate(zip(index.packet_offset.tolist(), index.packet_size.tolist(), strict=True)):
        payload = bytes(to_annex_b(source.read(offset, size), length_size))
        packet = av.Packet(annex_b_headers(codec, config) + payload if index.packet_key[number] else payload)
        packet.pts = number
        assert len(list(iterate_nals(payload, 0))) == len(list(iterate_nals(source.read(offset, size), length_size)))
        frames += decoder.decode(packet)
    frames += decoder.decode(None)
    assert [hash_of(frame) for frame in frames] == full_decode(sample(name)).hashes
    assert [frame.pts for frame in frames] == index.frame_packet.tolist()
