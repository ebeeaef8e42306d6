"""H.264 slices are read as they were written, and ordered as a decoder that follows the standard would."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from videoloader.indexing.bitstream.display_order import display_order
from videoloader.indexing.bitstream.h264_order import h264_order
from videoloader.indexing.bitstream.h264_parameter_sets import Sps, read_sps

START, LONG_START = b"\0\0\1", b"\0\0\0\1"
ROW = 96
RECOVERY_POINT, OTHER_MESSAGE = b"\6\6\1\xc4\x80", b"\6\5\2ab\x80"


class Packets:
    """PacketHeads of these packets, with bytes behind the short ones that could be taken for theirs."""

    def __init__(self, packets: Sequence[bytes]) -> None:
        self.size = np.array([len(packet) for packet in packets], np.int64)
        self._packets = packets

    @property
    def rows(self) -> npt.NDArray[np.uint8]:
        return np.stack([np.frombuffer((packet + b"\xff" * ROW)[:ROW], np.uint8) for packet in self._packets])

    def __iter__(self) -> Iterator[bytes]:
        return (packet[:ROW] for packet in self._packets)

    def wholes(self) -> Iterator[bytes]:
        return iter(self._packets)

    def start(self, number: int, most: int) -> bytes:
        return self._packets[number][:most]


def ue(number: int) -> str:
    code = f"{number + 1:b}"
    return "0" * (len(code) - 1) + code


def se(number: int) -> str:
    return ue(2 * number - 1 if number > 0 else -2 * number)


def unit(header: int, bits: str) -> bytes:
    """A NAL unit with these bits, a stop bit and emulation prevention."""
    bits += "1" + "0" * (-(len(bits) + 1) % 8)
    data = bytearray([header])
    for byte in int(bits, 2).to_bytes(len(bits) // 8, "big"):
        if byte <= 3 and data[-2:] == b"\0\0":
            data.append(3)
        data.append(byte)
    return bytes(data)


@dataclass(frozen=True)
class Stream:
    """What slice headers depend on."""

    order_type: int = 0
    number_bits: int = 4
    order_bits: int = 4
    cycle: tuple[int, ...] = ()
    frames_only: bool = True
    bottom_order: bool = False
    reordered: int = 2

    def sps(self) -> bytes:
        order = {
            0: ue(self.order_bits - 4),
            1: "0" + se(-3) + se(1) + ue(len(self.cycle)) + "".join(map(se, self.cycle)),
            2: "",
        }[self.order_type]
        size = ue(3) + ue(2) + ("1" if self.frames_only else "00") + "00"
        vui = "1" + "0" * 7 + "01" + "1" + ue(0) * 4 + ue(self.reordered) + ue(4)
        bits = f"{77:08b}{0:08b}{30:08b}" + ue(0) + ue(self.number_bits - 4) + ue(self.order_type) + order
        return unit(0x67, bits + ue(4) + "0" + size + vui)

    def pps(self, number: int = 0) -> bytes:
        return unit(0x68, ue(number) + ue(0) + "0" + str(int(self.bottom_order)) + "1" * 8)

    def config(self) -> bytes:
        return LONG_START + self.sps() + LONG_START + self.pps()

    def slice(
        self, header: int, frame_num: int, lsb: int, deltas: tuple[int, int] = (0, 0), kind: int = 5, pps: int = 0,
        rest: str = "01" * 30, first_block: int = 0,
    ) -> bytes:  # fmt: skip
        bits = (
            ue(first_block)
            + ue(kind)
            + ue(pps)
            + f"{frame_num:0{self.number_bits}b}"
            + ("" if self.frames_only else "0")
        )
        bits += ue(frame_num % 3) if header & 31 == 5 else ""
        if self.order_type == 0:
            bits += f"{lsb:0{self.order_bits}b}" + (se(deltas[0]) if self.bottom_order else "")
        elif self.order_type == 1:
            bits += se(deltas[0]) + (se(deltas[1]) if self.bottom_order else "")
        return unit(header, bits + rest)


STREAMS = st.builds(
    Stream,
    order_type=st.sampled_from([0, 0, 1, 2]),
    number_bits=st.integers(4, 16) | st.just(16),
    order_bits=st.integers(4, 16) | st.just(16),
    cycle=st.lists(st.integers(-3, 5), max_size=3).map(tuple),
    frames_only=st.sampled_from([True, True, True, False]),
    bottom_order=st.sampled_from([False, False, False, True]),
    reordered=st.integers(0, 3),
)


@st.composite
def any_starts(draw: st.DrawFn, stream: Stream) -> bytes:
    """What may stand before a slice, its start code included."""
    sets = LONG_START + stream.sps() + LONG_START + stream.pps()
    starts = [START, LONG_START, LONG_START + b"\x09\xf0" + START, sets + START, LONG_START + stream.pps() + LONG_START]
    starts += [LONG_START + RECOVERY_POINT + START, LONG_START + OTHER_MESSAGE + sets + START]
    starts += [LONG_START + bytes([0x0C]) + b"\xff" * 200 + START]
    return draw(st.sampled_from(starts))


@settings(max_examples=examples(400))
@given(st.data())
def test_orders_are_those_that_the_standard_counts_picture_by_picture(data: st.DataObject) -> None:
    """Of pictures whose numbers go on as they should, but for a few."""
    stream = replace(data.draw(STREAMS), reordered=60)
    if data.draw(st.booleans()):
        stream = replace(stream, number_bits=data.draw(st.integers(4, 5)), order_bits=data.draw(st.integers(4, 5)))
    counter = _OrderCounter(read_sps(stream.sps()[1:]))
    packets: list[bytes] = []
    orders: list[tuple[int, int]] | None = []
    last = 0
    for number in range(data.draw(st.integers(1, 40))):
        idr = number == 0 or not data.draw(st.integers(0, 15))
        reference = idr or bool(data.draw(st.integers(0, 2)))
        frame_num = 0 if idr and data.draw(st.integers(0, 9)) else (last + 1) % (1 << stream.number_bits)
        frame_num = frame_num if data.draw(st.integers(0, 99)) else 3
        last = frame_num if reference else last
        lsb = (0 if idr else 2 * number + data.draw(st.integers(-4, 4))) % (1 << stream.order_bits)
        delta = data.draw(st.integers(-2, 2))
        header = 0x65 if idr else 0x41 if reference else 0x01
        kind, rest = data.draw(st.sampled_from([0, 1, 5, 7])), data.draw(st.sampled_from(["", "0" * 40, "01" * 200]))
        start = data.draw(any_starts(stream))
        packets.append(start + stream.slice(header, frame_num, lsb, (delta, 1), kind, 0, rest))
        if orders is not None:
            try:
                orders.append(counter.count(idr, reference, frame_num, lsb, delta))
            except ValueError:
                orders = None
    order = h264_order(stream.config(), Packets(packets))
    if orders is None or len(set(orders)) < len(orders):
        assert order is None
        return
    expected = sorted(range(len(orders)), key=orders.__getitem__)
    one_by_one = display_order("h264", stream.config())
    assert one_by_one is not None
    keys = [one_by_one.key(packet) for packet in packets]
    assert sorted(range(len(keys)), key=keys.__getitem__) == expected
    if stream.order_type == 1:
        assert order is None
    else:
        assert order is not None
        assert order.frames.tolist() == expected


def test_only_packets_with_headers_of_their_own_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, read = Stream(), []
    packets = [
        (stream.config() if number % 50 == 0 else LONG_START + b"\x09\xf0")
        + LONG_START
        + stream.slice(0x65 if number % 50 == 0 else 0x41, number % 50 % 16, 2 * (number % 50) % 16)
        for number in range(1000)
    ]
    start = Packets.start
    monkeypatch.setattr(Packets, "start", lambda self, number, most: read.append(number) or start(self, number, most))
    order = h264_order(stream.config(), Packets(packets))
    assert order is not None
    assert order.frames.tolist() == list(range(1000))
    assert np.flatnonzero(order.keys).tolist() == list(range(0, 1000, 50)) == read


@settings(max_examples=examples(200))
@given(st.data())
def test_slices_that_are_cut_off_or_changed_are_not_read_as_others(data: st.DataObject) -> None:
    stream = replace(data.draw(STREAMS.filter(lambda stream: stream.order_type != 1)), reordered=60)
    whole = [stream.slice(0x65, 0, 0), *(stream.slice(0x41, n, 2 * n) for n in range(1, 8))]
    starts = [data.draw(any_starts(stream)) for _ in whole]
    order = h264_order(stream.config(), Packets([*map(bytes.__add__, starts, whole)]))
    assert order is not None
    assert order.frames.tolist() == list(range(8))
    number = data.draw(st.integers(0, 7))
    whole[number] = whole[number][: data.draw(st.integers(0, 8))] + data.draw(
        st.sampled_from([b"", START + b"\x01\x9a"])
    )
    packets = [*map(bytes.__add__, starts, whole)]
    cut = h264_order(stream.config(), Packets(packets))
    assert cut is None or cut.frames.tolist() == list(range(8))


@settings(max_examples=examples(200))
@given(st.integers(0, 3), st.permutations(range(8)))
def test_frames_are_ordered_only_where_a_decoder_of_the_stated_depth_gives_them_out_so(
    held: int, places: list[int]
) -> None:
    stream = Stream(order_bits=8, reordered=held)
    pictures = [(LONG_START, 0x65, 0, 0)] + [(LONG_START, 0x41, 1 + n, 2 + 2 * place) for n, place in enumerate(places)]
    packets = [start + stream.slice(header, number, lsb) for start, header, number, lsb in pictures]
    order = h264_order(stream.config(), Packets(packets))
    orders = [lsb for *_, lsb in pictures]
    if _given_out(orders, held) == sorted(orders):
        assert order is not None
        assert [orders[packet] for packet in order.frames] == sorted(orders)
    else:
        assert order is None


@pytest.mark.parametrize("change", [{"number_bits": 17}, {"order_bits": 17}, {"order_bits": 300}])
def test_numbers_wider_than_the_standard_allows_are_not_ordered(change: dict[str, int]) -> None:
    stream = replace(Stream(), **change)
    assert h264_order(stream.config(), Packets([LONG_START + stream.slice(0x65, 0, 0)])) is None


def test_deltas_larger_than_the_standard_allows_are_not_ordered() -> None:
    stream = Stream(order_type=1, cycle=(2,))
    for delta, is_ordered in ((1 << 30, True), (1 << 70, False)):
        assert _is_ordered(stream, [LONG_START + stream.slice(0x65, 0, 0, (delta, 0))]) == is_ordered
    stream = Stream(order_type=1, cycle=(1 << 70,))
    packets = [LONG_START + stream.slice(0x65, 0, 0), LONG_START + stream.slice(0x41, 1, 0)]
    assert not _is_ordered(stream, packets)


def _is_ordered(stream: Stream, packets: Sequence[bytes]) -> bool:
    """Whether the order is told one by one."""
    order = display_order("h264", stream.config())
    assert order is not None
    try:
        return bool([order.key(packet) for packet in packets])
    except ValueError:
        return False


def test_pictures_of_which_decoding_goes_its_own_ways_are_not_ordered() -> None:
    stream = Stream(frames_only=False)
    first, second = LONG_START + stream.slice(0x65, 0, 0), LONG_START + stream.slice(0x41, 1, 2)
    field = LONG_START + unit(0x41, ue(0) + ue(5) + ue(0) + "0001" + "11" + "0010" + "01" * 30)
    inside = LONG_START + stream.slice(0x41, 1, 2, first_block=1)
    partition = LONG_START + stream.slice(0x42, 1, 2)
    changed = LONG_START + replace(stream, reordered=3).sps() + second
    again = LONG_START + stream.sps() + second
    for packet in (second, again):
        assert h264_order(stream.config(), Packets([first, packet])) is not None
    for packet in (field, inside, partition, changed):
        assert h264_order(stream.config(), Packets([first, packet])) is None
    assert h264_order(stream.config(), Packets([second])) is None


def test_decoding_starts_at_recovery_points_whatever_stands_before_slices() -> None:
    stream = Stream(reordered=0)
    long_message = b"\6\5\xff\xff\x64" + b"ab" * 305 + b"\x80"
    starts = [START + RECOVERY_POINT, START + OTHER_MESSAGE, START + long_message, stream.config(), b""]
    starts += [START + long_message + START + RECOVERY_POINT, START + b"\x0c" + b"\xff" * 3000 + START + RECOVERY_POINT]
    packets = [LONG_START + stream.slice(0x65, 0, 0)]
    packets += [start + LONG_START + stream.slice(0x41, n, 2 * n, kind=7) for n, start in enumerate(starts, 1)]
    order = h264_order(stream.config(), Packets(packets))
    assert order is not None
    assert order.keys.tolist() == [True, True, False, False, False, False, True, True]
    assert order.frames.tolist() == list(range(8))


class _OrderCounter:
    """Picture order counts of frames, one after another (ITU-T H.264, 8.2.1)."""

    def __init__(self, sps: Sps) -> None:
        self._sps, self._sequence, self._counted = sps, 0, 0
        self._msb = self._lsb = self._frame_num = self._frame_offset = self._reference_num = 0

    def count(self, idr: bool, reference: bool, frame_num: int, lsb: int, delta: int) -> tuple[int, int]:
        """(coded video sequence, picture order count of the top field)."""
        sps = self._sps
        if idr:
            self._sequence += 1
            self._msb = self._lsb = self._frame_num = self._frame_offset = 0
        elif frame_num != (self._reference_num + 1) % (1 << sps.frame_num_bits):
            raise ValueError("pictures are missing")
        if reference:
            self._reference_num = frame_num
        self._counted += 1
        if sps.order_type == 0:
            return self._sequence, self._by_lsb(reference, lsb)
        if frame_num < self._frame_num:
            self._frame_offset += 1 << sps.frame_num_bits
        self._frame_num = frame_num
        number = self._frame_offset + frame_num
        if sps.order_type == 2:
            return self._sequence, self._counted
        expected = 0
        if number := (number - (not reference and number > 0)) if sps.offset_for_ref else 0:
            cycles, last = divmod(number - 1, len(sps.offset_for_ref))
            expected = cycles * sum(sps.offset_for_ref) + sum(sps.offset_for_ref[: last + 1])
        return self._sequence, expected + (0 if reference else sps.offset_for_non_ref) + delta

    def _by_lsb(self, reference: bool, lsb: int) -> int:
        half = 1 << (self._sps.order_bits - 1)
        msb = self._msb
        if self._lsb - lsb >= half:
            msb += 2 * half
        elif lsb - self._lsb > half:
            msb -= 2 * half
        if reference:
            self._msb, self._lsb = msb, lsb
        return msb + lsb


def _given_out(orders: list[int], held: int) -> list[int]:
    """The orders as a decoder gives them out that holds so many pictures back (the "bumping" of C.4.5.3)."""
    waiting: list[int] = []
    given = []
    for order in orders:
        if len(waiting) < held:
            heapq.heappush(waiting, order)
        else:
            given.append(heapq.heappushpop(waiting, order))
    return [*given, *sorted(waiting)]


def test_a_start_code_in_what_would_be_the_header_ends_it() -> None:
    stream = Stream(number_bits=16)
    keyframe, cut = bytes.fromhex("00000165e0001080"), bytes.fromhex("00000141e0000001")
    assert h264_order(stream.config(), Packets([keyframe, keyframe])) is not None
    assert h264_order(stream.config(), Packets([keyframe, keyframe, cut])) is None
