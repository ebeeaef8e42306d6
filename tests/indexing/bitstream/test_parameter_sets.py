"""Parameter sets and sequence headers: found in packets, known by kind and number, written into records."""

from __future__ import annotations

import pytest
from sample_videos import RECIPES
from truth import full_decode, hash_of

from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.parameter_sets import (
    merged_sets,
    named_sets,
    record_with_sets,
    sequence_headers,
    sets_in_packet,
    sets_of_record,
)
from videoloader.indexing.decoder import make_packet, open_decoder


def record_of(sample, name):
    return build_index(sample(name)).stream.codec_configs[0]


@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4", "h264_ts"])
def test_a_record_with_the_sets_of_another_is_as_good_as_that(sample, name):
    index = build_index(sample(name))
    codec, record = index.stream.codec, index.stream.codec_configs[0]
    sets = sets_of_record(codec, record)
    assert {kind for kind, _ in sets} == ({7, 8} if codec == "h264" else {32, 33, 34})
    written = record_with_sets(codec, record, sets)
    assert sets_of_record(codec, written) == sets
    assert nal_length_size(codec, written) == nal_length_size(codec, record)
    changed = type(index.stream)(**vars(index.stream) | {"codec_configs": (written,)})
    decoder = open_decoder(type(index)(**{**_fields(index), "stream": changed}), 0)
    source = open_source(sample(name))
    if index.byte_ranges:
        frames = []
        for number in range(8):
            data = source.read(*index.packet_range(number))
            frames += decoder.decode(make_packet(index, data, number, number - 1 if number else None))
        frames += decoder.decode(None)
        assert [hash_of(frame) for frame in frames[:4]] == full_decode(sample(name)).hashes[:4]


def _fields(index):
    return {name: getattr(index, name) for name in index.__dataclass_fields__}


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("length_size", [0, 2, 4])
def test_sets_in_a_packet_are_found_before_its_picture(sample, codec, length_size):
    units = [*sets_of_record(codec, record_of(sample, f"{codec}_mp4")).values()]
    picture = {"h264": b"\x65\x88\x84\x21", "hevc": b"\x26\x01\xaf\x08"}[codec]
    delimiter = {"h264": b"\x09\x10", "hevc": b"\x46\x01\x10"}[codec]

    def packet(*parts: bytes) -> bytes:
        return b"".join(
            (len(part).to_bytes(length_size, "big") if length_size else b"\0\0\0\1") + part for part in parts
        )

    assert sets_in_packet(codec, length_size, packet(delimiter, *units, picture)) == units
    assert sets_in_packet(codec, length_size, packet(delimiter, picture)) == []
    assert sets_in_packet(codec, length_size, b"") == []
    assert sets_in_packet(codec, length_size, packet(*units, b"", picture)) == units
    if length_size:  # what is cut off is no set
        assert sets_in_packet(codec, length_size, packet(*units)[:-1]) == units[:-1]


def test_a_later_set_takes_the_place_of_the_one_of_its_kind_and_number(sample):
    record = record_of(sample, "h264_mp4")
    sets = sets_of_record("h264", record)
    (sps,) = [unit for (kind, _), unit in sets.items() if kind == 7]
    (pps,) = [unit for (kind, _), unit in sets.items() if kind == 8]
    other = pps[:-1] + bytes([pps[-1] ^ 0x80])
    assert merged_sets(sets, named_sets("h264", [other + b"\0"])) == named_sets("h264", [sps, other])
    assert sets_of_record("h264", record_with_sets("h264", record, named_sets("h264", [sps, other]))) == named_sets(
        "h264", [sps, other]
    )


def test_a_record_does_not_hold_more_than_it_can_say(sample):
    record = record_of(sample, "h264_mp4")
    with pytest.raises(ValueError, match="longer"):
        record_with_sets("h264", record, named_sets("h264", [b"\x68\xce" + b"\1" * 70_000]))


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("mpeg")])
def test_sequence_headers_stand_before_the_picture(sample, name):
    index = build_index(sample(name))
    codec = index.stream.codec
    headers = sequence_headers(codec, index.stream.codec_configs[0])
    assert headers
    picture = b"\0\0\1\xb6\x10" if codec == "mpeg4" else b"\0\0\1\0\0\x08"
    assert sequence_headers(codec, headers + picture) == headers
    assert sequence_headers(codec, picture) == b""
