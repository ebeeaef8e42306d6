"""Walking NAL units, and which packets decoding can truly start at."""

import numpy as np
import pytest
from bit_writing import BitWriter
from hypothesis import given
from hypothesis import strategies as st
from sample_videos import RECIPES

from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.random_access import end_of_sequence, is_random_access

AVCC = bytes([1, 100, 0, 10, 0xFF, 0xE1, 0])
HVCC = bytes([1]) + bytes(20) + bytes([3, 0])
IDR, SLICE, SEI, AUD = b"\x65\x88", b"\x41\x9a", b"\x06", b"\x09\xf0"
I_SLICE = b"\x41\x88\x80"  # first_mb_in_slice 0, slice_type 7

nals = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
# Within a NAL unit no start code can stand, and at its end no zero.
coded = st.lists(
    st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"\0", b"\2") + b"\0\3"), min_size=1, max_size=6
)
length_sizes = st.sampled_from([1, 2, 3, 4])


def with_lengths(units, size):
    return b"".join(len(unit).to_bytes(size, "big") + unit for unit in units)


def with_start_codes(units, zeros=2):
    return b"".join(bytes(zeros) + b"\1" + unit for unit in units)


def walk(payload, length_size):
    return [bytes(payload[start:stop]) for start, stop in iterate_nals(payload, length_size)]


@given(nals, length_sizes, st.booleans())
def test_units_after_their_lengths(units, size, as_view):
    payload = with_lengths(units, size)
    assert walk(memoryview(payload) if as_view else payload, size) == units


@given(nals, length_sizes)
def test_empty_units_are_passed_over(units, size):
    padded = [each for unit in units for each in (b"", unit)]
    assert walk(with_lengths(padded, size), size) == units


@given(coded, st.data())
def test_units_after_start_codes_of_three_and_four_bytes(units, data):
    zeros = data.draw(st.lists(st.integers(2, 4), min_size=len(units), max_size=len(units)))
    payload = b"".join(with_start_codes([unit], count) for unit, count in zip(units, zeros, strict=True))
    # The extra zero before a start code counts to the unit before it, which ends in no zero of its own.
    assert [unit.rstrip(b"\0") for unit in walk(payload, 0)] == units


@given(nals.filter(bool), length_sizes, st.data())
def test_the_last_unit_may_be_cut_off(units, size, data):
    payload = with_lengths(units, size)
    *whole, last = [b"", *walk(payload[: data.draw(st.integers(0, len(payload) - 1))], size)]
    assert [b"", *units][: len(whole)] == whole
    assert [b"", *units][len(whole)].startswith(last)


@given(st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_can_be_walked(payload, size):
    assert sum(len(unit) for unit in walk(payload, size)) <= len(payload)


@pytest.mark.parametrize(
    ("codec", "config", "size"),
    [
        ("h264", AVCC, 4),
        ("h264", AVCC[:4] + b"\xfc" + AVCC[5:], 1),
        ("h264", AVCC[:6], 0),
        ("h264", b"\0\0\0\1\x67" + bytes(9), 0),
        ("h264", b"", 0),
        ("hevc", HVCC, 4),
        ("hevc", HVCC[:21] + b"\1\0", 2),
        ("hevc", HVCC[:22], 0),
        ("hevc", b"\0\0\0\1\x40" + bytes(30), 0),
        ("vp9", AVCC, 0),
    ],
)
def test_the_length_size_is_in_the_configuration_record(codec, config, size):
    assert nal_length_size(codec, config) == size


def h264(*units):
    return is_random_access("h264", AVCC, with_lengths(units, 4))


def sei(*messages):
    """An SEI unit, emulation prevention and all."""
    body = bytearray()
    for kind, payload in messages:
        body += b"\xff" * (kind // 255) + bytes([kind % 255]) + b"\xff" * (len(payload) // 255)
        body += bytes([len(payload) % 255]) + payload
    escaped, zeros = bytearray(), 0
    for byte in bytes(body) + b"\x80":
        if zeros == 2 and byte < 4:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return SEI + bytes(escaped)


def recovery_point(frames):
    """The message that says after how many frames all is right: Exp-Golomb coded, then four more bits."""
    number = f"{frames + 1:b}"
    bits = "0" * (len(number) - 1) + number + "1000" + "1"
    bits += "0" * (-len(bits) % 8)
    return 6, int(bits, 2).to_bytes(len(bits) // 8, "big")


def test_h264_starts_at_idr_pictures():
    assert h264(AUD, IDR)
    assert h264(AUD, sei((5, b"made by")), IDR, IDR)
    assert not h264(AUD, SLICE)
    assert not h264(SLICE, IDR)
    assert not h264()


other_kinds = st.integers(0, 600).filter(lambda kind: kind != 6)
messages = st.lists(st.tuples(other_kinds, st.binary(max_size=300) | st.just(bytes(20))), max_size=3)


@given(messages, st.integers(0, 40), messages)
def test_h264_starts_at_a_recovery_point_only_if_it_recovers_at_once(before, frames, after):
    unit = sei(*before, recovery_point(frames), *after)
    assert h264(unit, I_SLICE) is (frames == 0)


@pytest.mark.parametrize("kind", [0, 1, 3, 5, 6, 8])
def test_h264_does_not_start_at_a_recovery_point_of_a_picture_made_of_others(kind):
    code = f"{kind + 1:b}"
    bits = "1" + "0" * (len(code) - 1) + code  # first_mb_in_slice and slice_type, Exp-Golomb coded
    assert not h264(sei(recovery_point(0)), b"\x41" + int(bits.ljust(16, "0"), 2).to_bytes(2, "big"))


def test_sizes_of_messages_do_not_count_emulation_prevention():
    before = 0, b"\0\0\1" + b"\xff" * 5
    assert b"\0\0\3\1" in sei(before)
    assert h264(sei(before, recovery_point(0)), I_SLICE)


@given(messages)
def test_h264_does_not_start_at_other_messages(others):
    assert not h264(sei(*others), SLICE)


@given(st.binary(max_size=40))
def test_a_damaged_message_is_no_start_nor_an_error(body):
    h264(SEI + body, SLICE)
    assert not h264(SEI + b"\6", SLICE)


@pytest.mark.parametrize("kind", range(64))
def test_hevc_starts_at_irap_pictures(kind):
    payload = with_lengths([bytes([32 << 1, 1]), bytes([kind << 1, 1, 0])], 4)
    assert is_random_access("hevc", HVCC, payload) is (16 <= kind <= 23)


@pytest.mark.parametrize("kind", range(4))
def test_mpeg4_starts_at_intra_pictures(kind):
    assert is_random_access("mpeg4", b"", b"\0\0\1\xb6" + bytes([kind << 6])) is (kind == 0)


def test_mpeg4_without_a_picture_is_no_start():
    assert not is_random_access("mpeg4", b"", b"\0\0\1\xb0\1")
    assert not is_random_access("mpeg4", b"", b"\0\0\1\xb6")


def test_vp8_starts_at_key_frames():
    assert is_random_access("vp8", b"", b"\x10\2\0\x9d\1\x2a\x40\0\x40\0")
    assert not is_random_access("vp8", b"", b"\x11\2\0\x9d\1\x2a\x40\0\x40\0")  # it only looks like one
    assert not is_random_access("vp8", b"", b"\x10\2\0anything")


VP9_KEY, VP9_INTER = b"\x82\x49\x83\x42" + bytes(8), b"\x86" + bytes(11)
VP9_INTRA_ONLY = b"\x84\x92\x4c\x1a\x10" + bytes(7)


def superframe(*frames):
    """Frames and the index of them (VP9 bitstream specification, annex B)."""
    marker = bytes([0xC0 | len(frames) - 1])
    return b"".join(frames) + marker + bytes(len(frame) for frame in frames) + marker


def test_vp9_starts_where_the_first_frame_is_a_key_frame():
    assert is_random_access("vp9", b"", VP9_KEY)
    assert is_random_access("vp9", b"", superframe(VP9_KEY, VP9_INTER))
    assert not is_random_access("vp9", b"", superframe(VP9_INTER, VP9_KEY))
    for other in (VP9_INTER, VP9_INTRA_ONLY, b"\x88", b"\x82\x49\x83\x43" + bytes(8)):
        assert not is_random_access("vp9", b"", other)


# Sequence and frame headers of the reduced kind are for still pictures; this one has order hints and little else.
AV1_SEQUENCE = BitWriter().u(0, 5).u(0, 2).u(0, 5).u(0, 12).u(4, 5).u(7, 4).u(7, 4).u(127, 8).u(127, 8)
AV1_SEQUENCE = AV1_SEQUENCE.u(0, 1).u(0, 3).u(0, 4).u(1, 1).u(0, 2).u(1, 1).u(1, 1).u(6, 3).u(0, 11).bytes()


def obu(kind, body):
    return bytes([kind << 3 | 2, len(body)]) + body


def av1_frame(kind, shown):
    """show_existing_frame, frame_type, show_frame and some bytes that any frame may go on with."""
    return obu(6, BitWriter().u(0, 1).u(kind, 2).u(shown, 1).u(0, 4).bytes() + bytes(16))


def test_av1_starts_at_key_frames_that_are_shown_after_their_sequence_header():
    start, sequence = obu(2, b""), obu(1, AV1_SEQUENCE)
    assert is_random_access("av1", b"", start + sequence + av1_frame(0, 1))
    assert not is_random_access("av1", b"\x81\0\0\0" + sequence, start + av1_frame(0, 1))
    assert not is_random_access("av1", b"", start + sequence + av1_frame(0, 0))
    assert not is_random_access("av1", b"", start + sequence + av1_frame(0, 0) + obu(3, b"\x80"))
    for kind in (1, 2, 3):
        assert not is_random_access("av1", b"", start + sequence + av1_frame(kind, 1) + av1_frame(0, 1))


@pytest.mark.parametrize("kind", range(1, 4))
@pytest.mark.parametrize("codec", ["mpeg1video", "mpeg2video"])
def test_mpeg2_starts_at_intra_pictures_with_their_sequence_header(codec, kind):
    sequence, group, picture = b"\0\0\1\xb3" + bytes(8), b"\0\0\1\xb8" + bytes(4), b"\0\0\1\0" + bytes([0, kind << 3])
    assert is_random_access(codec, b"", sequence + group + picture + b"\0\1") is (kind == 1)
    assert is_random_access(codec, sequence, group + picture + b"\0\1") is (kind == 1)
    assert not is_random_access(codec, b"", group + picture + b"\0\1")
    assert not is_random_access(codec, b"", picture + sequence)


@pytest.mark.parametrize("codec", ["vp8", "vp9", "av1", "mpeg2video"])
@given(payload=st.binary(max_size=60))
def test_any_bytes_are_no_start_nor_an_error(codec, payload):
    if codec in ("av1", "mpeg2video"):
        assert not is_random_access(codec, b"", payload)
    else:
        is_random_access(codec, b"", payload)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.suffix != "ts"])
def test_encoders_keyframes_are_told_from_their_recovery_points(sample, name):
    index, source = build_index(sample(name)), open_source(sample(name))
    starts = [
        is_random_access(index.stream.codec, index.stream.codec_configs[0], source.read(offset, size))
        for offset, size in zip(index.packet_offset.tolist(), index.packet_size.tolist(), strict=True)
    ]
    keys = np.flatnonzero(index.packet_key).tolist()
    if name == "h264_mp4_intra_refresh":  # its later "keyframes" recover after a dozen frames
        assert keys == [0]
    assert np.flatnonzero(starts).tolist() == keys


def test_no_record_of_hevc_is_kept_for_the_life_of_the_process() -> None:
    records = [bytes([1, *bytes(20), 0xF0 | size, 0, 0, number]) for size in (0, 1, 3) for number in range(50)]
    assert len({id(end_of_sequence(record)) for record in records}) == 3
