"""What slice headers say of references, in streams made up at random: only their headers are there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from bit_writing import BitWriter, with_emulation_prevention
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.references import ReferenceClosure

TRAIL_N, TRAIL_R, RASL_N, RASL_R, IDR, CRA = 0, 1, 8, 9, 19, 21


@dataclass
class Picture:
    """A picture and the order counts of those it refers to and of those it keeps for later ones."""

    kind: int
    order: int
    used: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    layer: int = 0
    long_term: bool = False

    @property
    def is_anchor(self) -> bool:
        return self.layer == 0 and self.kind in (TRAIL_R, IDR, CRA)


def record(order_bits: int) -> bytes:
    """hvcC with one sequence and one picture parameter set, without reference picture sets of their own."""
    sps = BitWriter().u(0, 4).u(0, 3).u(1, 1).u(0, 88).u(93, 8)
    sps.ue(0).ue(1).ue(63).ue(63).u(0, 1).ue(0).ue(0).ue(order_bits - 4).u(1, 1).ue(5).ue(2).ue(0)
    for _ in range(6):
        sps.ue(0)
    sps.u(0, 1).u(0, 2).u(0, 1).ue(0).u(1, 1).ue(0).u(0, 3)
    pps = BitWriter().ue(0).ue(0).u(0, 1).u(0, 1).u(0, 3)
    units = [unit(33, sps.bytes()), unit(34, pps.bytes())]
    arrays = [bytes([each[0] >> 1, 0, 1]) + len(each).to_bytes(2, "big") + each for each in units]
    return bytes([1]) + bytes(20) + bytes([3, len(arrays)]) + b"".join(arrays)


def unit(kind: int, body: bytes, layer: int = 0) -> bytes:
    return bytes([kind << 1, layer + 1]) + with_emulation_prevention(body)


def packet(picture: Picture, order_bits: int) -> bytes:
    bits = BitWriter().u(1, 1)
    if picture.kind >= 16:
        bits.u(0, 1)
    bits.ue(0).ue(2)
    if picture.kind != IDR:
        bits.u(picture.order % (1 << order_bits), order_bits).u(0, 1)
        named = [] if picture.long_term else sorted({*picture.used, *picture.kept} - {picture.order})
        before = [order for order in reversed(named) if order < picture.order]
        after = [order for order in named if order > picture.order]
        bits.ue(len(before)).ue(len(after))
        for orders, sign in ((before, -1), (after, 1)):
            last = picture.order
            for order in orders:
                bits.ue(sign * (order - last) - 1).u(order in picture.used, 1)
                last = order
        write_long_term(bits, picture, order_bits)
    body = unit(picture.kind, bits.bytes(), picture.layer)
    return len(body).to_bytes(4, "big") + body


def write_long_term(bits: BitWriter, picture: Picture, order_bits: int) -> None:
    named = sorted({*picture.used, *picture.kept}, reverse=True) if picture.long_term else []
    bits.ue(len(named))
    modulus, cycles = 1 << order_bits, 0
    for order in named:
        bits.u(order % modulus, order_bits).u(order in picture.used, 1).u(1, 1)
        back = picture.order // modulus - order // modulus
        bits.ue(back - cycles)
        cycles = back


@st.composite
def streams(draw: st.DrawFn, order_bits: int) -> list[Picture]:
    """Any order of pictures that order counts of so many bits can tell."""
    pictures = [Picture(IDR, 0)]
    buffer, anchor, used_up = {0}, 0, {0}
    reach = (1 << order_bits) // 2 - 1
    for _ in range(draw(st.integers(1, 40))):
        if draw(st.integers(0, 19)) == 0:
            pictures.append(Picture(IDR, 0))
            buffer, anchor, used_up = {0}, 0, {0}
            continue
        steps = [step for step in range(-min(reach, 8), min(reach, 12) + 1) if anchor + step not in used_up]
        if not steps:
            continue
        order = anchor + draw(st.sampled_from(steps))
        used = draw(st.sets(st.sampled_from(sorted(buffer)), max_size=3)) if buffer else set()
        kept = draw(st.sets(st.sampled_from(sorted(buffer)), max_size=3)) if buffer else set()
        long_term = draw(st.booleans()) and all(
            each // (1 << order_bits) <= order >> order_bits for each in used | kept
        )
        picture = Picture(
            draw(st.sampled_from([TRAIL_N, TRAIL_R])),
            order,
            tuple(used),
            tuple(kept - used),
            draw(st.integers(0, 1)),
            long_term,
        )
        pictures.append(picture)
        buffer = used | kept | {order}
        used_up.add(order)
        anchor = order if picture.is_anchor else anchor
    return pictures


def needed(pictures: list[Picture], order_bits: int, wanted: set[int], parts: list[int] | None = None) -> set[int]:
    """The packets kept, asked for in parts that begin at the given packets."""
    closure = ReferenceClosure("hevc", record(order_bits))
    payloads = [packet(picture, order_bits) for picture in pictures]
    bounds = [0, *(parts or []), len(pictures)]
    kept: list[bool] = []
    for first, stop in pairwise(bounds):
        asked = [number in wanted for number in range(first, stop)]
        kept += closure.needed(payloads[first:stop], asked, more_follow=stop < len(pictures))
    return {number for number, each in enumerate(kept) if each}


def assert_decodes(pictures: list[Picture], order_bits: int, kept: set[int]) -> None:
    """A decoder that sees only the packets kept tells the order counts right and finds all references."""
    half = 1 << (order_bits - 1)
    buffer: dict[int, int] = {}
    anchor = 0
    for number in sorted(kept):
        picture = pictures[number]
        named = {*picture.used, *picture.kept}
        order = 0 if picture.kind == IDR else anchor + (picture.order - anchor + half - 1) % (2 * half) - half + 1
        assert order == picture.order
        buffer = {each: buffer[each] for each in named}
        assert all(buffer[each] == last_with(pictures, number, each) for each in named)
        buffer[order] = number
        anchor = order if picture.is_anchor else anchor


def last_with(pictures: list[Picture], before: int, order: int) -> int:
    return max(number for number in range(before) if pictures[number].order == order)


@given(st.data(), st.sampled_from([4, 5, 8]))
def test_kept_packets_decode_alone(data: st.DataObject, order_bits: int) -> None:
    pictures = data.draw(streams(order_bits))
    numbers = st.integers(0, len(pictures) - 1)
    wanted = data.draw(st.sets(numbers, min_size=1))
    kept = needed(pictures, order_bits, wanted)
    assert wanted <= kept
    assert_decodes(pictures, order_bits, kept)
    parts = sorted(data.draw(st.sets(numbers, max_size=3)) - {0})
    in_parts = needed(pictures, order_bits, wanted, parts)
    assert wanted <= in_parts  # other pictures may be kept to count on from than in the whole
    assert_decodes(pictures, order_bits, in_parts)


@given(st.data())
def test_nothing_is_kept_that_no_picture_names(data: st.DataObject) -> None:
    pictures = data.draw(streams(16))
    wanted = data.draw(st.sets(st.integers(0, len(pictures) - 1), min_size=1))
    expected, waiting = {0}, sorted(wanted)
    while waiting:
        number = waiting.pop()
        if number not in expected:
            expected.add(number)
            start = max(each for each in range(number + 1) if pictures[each].kind == IDR)
            named = {*pictures[number].used, *pictures[number].kept}
            waiting += [start, *(last_with(pictures, number, order) for order in named)]
    assert needed(pictures, 16, wanted) == expected


def test_pictures_between_are_kept_where_order_counts_would_come_out_wrong() -> None:
    # Intra pictures; four bits tell differences of up to eight.
    pictures = [Picture(IDR, 0), *(Picture(TRAIL_R, order) for order in range(1, 12))]
    assert needed(pictures, 5, {11}) == {0, 11}
    assert needed(pictures, 4, {8}) == {0, 8}
    assert needed(pictures, 4, {11}) == {0, 8, 9, 10, 11}
    assert needed(pictures, 4, {4, 11}) == {0, 4, 11}


def test_a_reference_that_is_not_there_keeps_all() -> None:
    pictures = [Picture(IDR, 0), Picture(TRAIL_N, 1, (0,)), Picture(TRAIL_N, 2, (0,)), Picture(TRAIL_R, 4, (3,))]
    pictures += [Picture(TRAIL_N, 5, (4,)), Picture(TRAIL_N, 6, (4,))]
    assert needed(pictures, 8, {0}) == {*range(6)}


def test_pictures_that_are_only_kept_for_later_may_be_missing() -> None:
    pictures = [Picture(IDR, 0), Picture(TRAIL_R, 1, (0,), (-1,)), Picture(TRAIL_N, 2, (), (1,))]
    pictures += [Picture(TRAIL_N, 3, (1,))]
    assert needed(pictures, 8, {3}) == {0, 1, 3}


def test_leading_pictures_need_the_one_they_lead_to() -> None:
    pictures = [Picture(IDR, 0), Picture(TRAIL_R, 4, (0,)), Picture(CRA, 12, (), (4,)), Picture(RASL_R, 8, (4, 12))]
    pictures += [Picture(RASL_N, 6, (4, 8), (12,)), Picture(RASL_N, 10, (8, 12)), Picture(TRAIL_R, 13, (12,))]
    assert needed(pictures, 8, {5}) == {0, 1, 2, 3, 5}
    assert needed(pictures, 8, {6}) == {0, 1, 2, 6}


def test_leading_pictures_of_the_first_are_passed_over() -> None:
    pictures = [Picture(CRA, 12, (), (4,)), Picture(RASL_R, 8, (4, 12)), Picture(TRAIL_R, 13, (12,))]
    assert needed(pictures, 8, {2}) == {0, 2}


def closure_of(payloads: list[bytes], wanted: set[int]) -> list[bool]:
    asked = [number in wanted for number in range(len(payloads))]
    return ReferenceClosure("hevc", record(8)).needed(payloads, asked, more_follow=False)


def simple_stream() -> list[bytes]:
    """A picture to start with, and five that need it alone."""
    pictures = [Picture(IDR, 0), *(Picture(TRAIL_N, order, (0,)) for order in range(1, 6))]
    return [packet(picture, 8) for picture in pictures]


def with_length(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("added", "lasts"),
    [
        (unit(34, BitWriter().ue(0).ue(0).u(0, 2).u(0, 3).u(1, 1).bytes()), True),  # another picture parameter set
        (unit(34, BitWriter().ue(0).ue(0).u(0, 2).u(0, 3).bytes()), False),  # the same as in the record
        (unit(39, bytes([19, 1, 0, 0x80])), True),  # film grain
        (unit(39, bytes([5, 1, 0, 0x80])), False),  # a message of the user's
        (unit(35, b"\x50"), False),
    ],
)
def test_packets_that_carry_what_lasts_are_kept(added: bytes, lasts: bool) -> None:
    payloads = simple_stream()
    payloads[2] = with_length(added) + payloads[2]
    assert closure_of(payloads, {5}) == [True, False, lasts, False, False, True]
    assert closure_of(payloads, {1}) == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"\0\0\0\1",
        with_length(unit(35, b"\x50")),  # no picture
        with_length(unit(TRAIL_R, b"\x80")),  # a header cut off
        packet(Picture(TRAIL_N, 9, (0,)), 8) * 2,
        with_length(unit(33, b"\0")) + packet(Picture(TRAIL_N, 9, (0,)), 8),
    ],
)
def test_from_a_packet_that_cannot_be_read_on_all_are_kept(odd: bytes) -> None:
    payloads = simple_stream()
    payloads[3] = odd
    kept = closure_of(payloads, {1})
    assert kept == [True, True, True, True, True, True] or kept == [True, True, False, True, True, True]


def test_with_pictures_of_other_layers_all_are_kept() -> None:
    payloads = simple_stream()
    other = packet(Picture(TRAIL_R, 77, (76,)), 8)
    other = other[:5] + bytes([other[5] | 1 << 3]) + other[6:]
    assert all(closure_of([payload + other for payload in payloads], {4}))
    message = with_length(bytes([39 << 1, 1 << 3 | 1]) + b"\1\1\0\x80")
    assert closure_of([message + payload for payload in payloads], {4}) == [True, False, False, False, True, False]


def test_without_a_record_all_are_kept() -> None:
    payloads = simple_stream()
    for config in (b"", record(8)[:30], b"\1" + bytes(40)):
        assert all(ReferenceClosure("hevc", config).needed(payloads, [False] * 6, more_follow=False))
