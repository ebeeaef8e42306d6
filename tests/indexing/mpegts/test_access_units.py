"""Access units are cut as libavcodec's parsers cut them, wherever the transport's packets are cut."""

from __future__ import annotations

import av
import numpy as np
import pytest
from example_count import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from videoloader.indexing.mpegts.access_units import cut_access_units
from videoloader.indexing.mpegts.packets import OddStreamError, packet_headers
from videoloader.indexing.mpegts.pieces import Piece, make_piece
from videoloader.indexing.stream_info import TransportLayout

PID = 0x100
START_CODES = st.sampled_from([b"\0\0\1", b"\0\0\0\1", b"\0\0\0\0\1"])
REST = st.binary(min_size=5, max_size=40).map(lambda data: data.replace(b"\0", b"\x55"))
H264_TYPES = [1, 1, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20]
HEVC_TYPES = [0, 1, 1, 1, 9, 16, 19, 20, 21, 22, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 48]
MPEG2_CODES = [0, 0, 0, 0xB3, 0xB5, 0xB5, 0xB8, 1, 2, 1, 2, 0xAF, 0xB7, 0xB2, 0xE0]


def units_of(codec: str) -> st.SearchStrategy[bytes]:
    """A start code with what may follow it in a stream of the codec, in no order that an encoder would choose."""
    if codec == "h264":
        header = st.builds(lambda kind, reference: bytes([kind | reference]), st.sampled_from(H264_TYPES), ref_idc)
        first = st.sampled_from([b"\x80", b"\x9a", b"\x40", b"\x20", b"\x05\x10"])
        return st.builds(lambda *parts: b"".join(parts), START_CODES, header, first, REST)
    if codec == "hevc":
        header = st.builds(lambda kind, layer: bytes([kind << 1, layer]), st.sampled_from(HEVC_TYPES), hevc_layer)
        first = st.sampled_from([b"\x80", b"\x20"])
        return st.builds(lambda *parts: b"".join(parts), START_CODES, header, first, REST)
    coding = st.sampled_from([b"\x81\x55\xf3", b"\x81\x55\xf1", b"\x81\x55\x02", b"\x11\x55\xf1"])
    return st.builds(
        lambda start, code, extension, rest: start + bytes([code]) + extension * (code == 0xB5) + rest,
        START_CODES,
        st.sampled_from(MPEG2_CODES),
        coding,
        REST,
    )


ref_idc = st.sampled_from([0, 0x60])
hevc_layer = st.sampled_from([1, 1, 1, 9])  # nuh_layer_id 0 or 1


def to_transport(stream: bytes, sizes: list[int]) -> bytes:
    """One PES packet in transport packets whose payloads have these sizes, in turn."""
    content = b"\0\0\1\xe0\0\0\x80\0\0" + stream
    packets, at = [], 0
    while at < len(content):
        payload = content[at : at + (max(sizes[len(packets) % len(sizes)], 9 if at == 0 else 1))]
        at += len(payload)
        header = bytes([0x47, 0x01 | (0x40 if not packets else 0), PID & 255])
        stuffing = 183 - len(payload)
        if stuffing < 0:
            packets.append(header + b"\x10" + payload)
        else:
            field = bytes([stuffing]) + (b"\0" + b"\xff" * (stuffing - 1) if stuffing else b"")
            packets.append(header + b"\x30" + field + payload)
    return b"".join(packets)


def piece_of(stream: bytes, sizes: list[int]) -> Piece:
    data = to_transport(stream, sizes)
    return make_piece(data, packet_headers(data, 188), TransportLayout(PID, 188, 0), 0, 0, last=True)


payload_sizes = st.lists(st.sampled_from([1, 2, 3, 4, 100, 183, 184]), min_size=1, max_size=9)


@given(st.lists(st.sampled_from([b"\0", b"\1", b"\0\0\1", b"\xb3", b"\xff"]), max_size=300), payload_sizes)
def test_start_codes_are_found_across_the_borders_of_packets(parts, sizes):
    stream = b"\xee" + b"".join(parts)
    piece = piece_of(stream, sizes)
    assert piece.cut(np.array([0, 1]), np.array([len(stream), len(stream)])) == [stream, stream[1:]]
    expected = [at for at in range(len(stream) - 3) if stream[at : at + 3] == b"\0\0\1"]
    position, following = piece.start_codes()
    assert position.tolist() == expected
    assert following.tolist() == [stream[at + 3] for at in expected]


@settings(max_examples=examples(200))
@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg2video"])
@given(data=st.data())
def test_units_are_those_of_the_parser(codec, data):
    stream = b"".join(data.draw(st.lists(units_of(codec), min_size=1, max_size=30)))
    piece = piece_of(stream, data.draw(payload_sizes))
    try:
        units = cut_access_units(codec, piece, 0)
    except OddStreamError:
        assume(False)
    parser = av.CodecContext.create(codec, "r")
    expected = [packet.size for packet in (*parser.parse(stream), *parser.parse(None))]
    assert np.diff(units.start, append=piece.end).tolist() == expected


@pytest.mark.parametrize("first_block", [b"\x80", b"\x01\x23\x45", b"\0\x81\x23\x45\x67"])
def test_a_slice_too_short_for_its_header_is_left_to_libavformat(first_block):
    for length in range(len(first_block)):
        stream = b"\0\0\1\x09\xf0\0\0\1\x65" + first_block[:length] + b"\0\0\1\x09\xf0\0\0\1\x65\x88\x84\x21\x43"
        with pytest.raises(OddStreamError):
            cut_access_units("h264", piece_of(stream, [184]), 0)


def test_a_message_may_be_cut_off_behind_its_header():
    stream = b"\0\0\1\x09\xf0\0\0\1\x06"
    units = cut_access_units("h264", piece_of(stream, [184]), 0)
    assert units.start.tolist() == [0]
    assert not units.turned
