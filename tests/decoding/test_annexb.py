"""Packets and parameter sets with start codes hold the same NAL units, and decode to the same frames."""

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth import full_decode, hash_of

from videoloader.decoding.annexb import add_annex_b, annex_b_headers
from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

START_CODE = b"\0\0\0\1"
nals = st.lists(st.binary(min_size=1, max_size=50), max_size=6)
sets = st.lists(st.binary(min_size=1, max_size=30), max_size=3)


def with_lengths(units, size):
    return b"".join(len(unit).to_bytes(size, "big") + unit for unit in units)


def converted(payload, codec, size):
    pieces = []
    add_annex_b(pieces, payload, codec, size)
    return b"".join(pieces)


@given(nals, st.sampled_from([1, 2, 3, 4]), st.booleans())
def test_each_length_becomes_a_start_code(units, size, as_view):
    payload = with_lengths(units, size)
    result = converted(memoryview(payload) if as_view else payload, "h264", size)
    assert result == b"".join(START_CODE + unit for unit in units)


@given(nals.filter(bool), st.sampled_from([1, 2, 4]), st.data())
def test_a_unit_cut_off_is_left_out(units, size, data):
    payload = with_lengths(units, size)
    cut = converted(payload[: data.draw(st.integers(0, len(payload) - 1))], "h264", size)
    assert b"".join(START_CODE + unit for unit in units[:-1]).startswith(cut)


def test_nothing_of_a_packet_is_copied():
    payload = memoryview(bytearray(with_lengths([b"abc", b"de"], 4)))
    pieces = []
    add_annex_b(pieces, payload, "h264", 4)
    assert all(piece is pieces[0] or piece.obj is payload.obj for piece in pieces[1::2])
    with_start_codes = bytearray(START_CODE + b"abc")
    pieces = []
    add_annex_b(pieces, with_start_codes, "h264", 0)
    assert pieces[0] is with_start_codes


# (NAL unit header of a sequence parameter set, of another unit, of a slice)
HEADERS = {"h264": (b"\x67", b"\x06", b"\x65"), "hevc": (b"\x42\1", b"\x4e\1", b"\x26\1")}
bodies = st.binary(min_size=4, max_size=40).map(lambda body: body.replace(b"\0", b"\1"))


@given(st.sampled_from(["h264", "hevc"]), st.lists(st.tuples(st.booleans(), bodies), max_size=4), bodies, st.data())
def test_sequence_parameter_sets_in_a_packet_are_found(codec, leading, picture, data):
    sps, other, slice_header = HEADERS[codec]
    units = [(sps if is_set else other) + body for is_set, body in leading] + [slice_header + picture]
    expected = [unit for unit, (is_set, _) in zip(units, leading, strict=False) if is_set]
    size = data.draw(st.sampled_from([0, 1, 2, 4]))
    payload = with_lengths(units, size) if size else b"".join(START_CODE + unit for unit in units)
    assert add_annex_b([], memoryview(payload), codec, size) == expected
    long_message = other + bytes([1]) * 3000
    payload = with_lengths([long_message], 4) + with_lengths(units, 4) if size else START_CODE + long_message + payload
    assert add_annex_b([], memoryview(payload), codec, 4 if size else 0) == expected


def test_higher_layers_of_hevc_are_left_out():
    base, second_view = b"\x02\1base", b"\x02\x09view"
    assert converted(with_lengths([base, second_view, base], 4), "hevc", 4) == 2 * (START_CODE + base)


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
    units = [unit for _, units in arrays for unit in units]
    base = [unit for unit in units if len(unit) < 2 or not (unit[0] & 1 or unit[1] >> 3)]
    assert annex_b_headers("hevc", record) == b"".join(START_CODE + unit for unit in base)


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
        payload = converted(source.read(offset, size), codec, length_size)
        packet = av.Packet(annex_b_headers(codec, config) + payload if index.packet_key[number] else payload)
        packet.pts = number
        assert len(list(iterate_nals(payload, 0))) == len(list(iterate_nals(source.read(offset, size), length_size)))
        frames += decoder.decode(packet)
    frames += decoder.decode(None)
    assert [hash_of(frame) for frame in frames] == full_decode(sample(name)).hashes
    assert [frame.pts for frame in frames] == index.frame_packet.tolist()
