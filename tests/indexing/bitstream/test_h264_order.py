"""H.264 slices are read at once as they are bit by bit, and ordered as a decoder that follows the standard would."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoloader.indexing.bitstream.h264_order import display_order, h264_order, order_counts, pictures_are_missing
from videoloader.indexing.bitstream.h264_parameter_sets import Sps, read_sps
from videoloader.indexing.bitstream.h264_slices import Slices, _SliceReader, read_slices

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

    def whole(self, number: int) -> bytes:
        return self._packets[number]


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
        rest: str = "01" * 30,
    ) -> bytes:  # fmt: skip
        bits = ue(0) + ue(kind) + ue(pps) + f"{frame_num:0{self.number_bits}b}" + ("" if self.frames_only else "0")
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
HEADERS = st.sampled_from([0x65, 0x41, 0x41, 0x01, 0x61])


@st.composite
def any_packets(draw: st.DrawFn, stream: Stream) -> list[bytes]:
    """Packets that begin in few ways, whose slices are usual, damaged or noise."""
    sets = LONG_START + stream.sps() + LONG_START + stream.pps()
    starts = [START, LONG_START, LONG_START + b"\x09\xf0" + START, sets + START, LONG_START + stream.pps() + LONG_START]
    starts += [LONG_START + RECOVERY_POINT + START, LONG_START + OTHER_MESSAGE + sets + START]
    starts += [LONG_START + bytes([0x0C]) + b"\xff" * 200 + START]
    starts = draw(st.lists(st.sampled_from(starts), min_size=1, max_size=3))
    if not draw(st.integers(0, 9)):
        starts.append(LONG_START + stream.pps(draw(st.integers(0, 2))) + START)
    packets = []
    for _ in range(draw(st.integers(1, 12))):
        number = draw(
            st.integers(0, (1 << stream.number_bits) - 1) | st.sampled_from([0, 1, 1 << stream.number_bits - 1])
        )
        lsb = draw(st.integers(0, (1 << stream.order_bits) - 1) | st.just(0))
        kind, rest = draw(st.sampled_from([0, 1, 5, 7, 30])), draw(st.sampled_from(["", "0" * 40, "01" * 200]))
        slice_ = stream.slice(draw(HEADERS), number, lsb, (draw(st.integers(-9, 9)), 3), kind, 0, rest)
        packet = (
            draw(st.sampled_from(starts)) + slice_[: draw(st.integers(2, 9)) if not draw(st.integers(0, 15)) else None]
        )
        if not draw(st.integers(0, 15)):
            at = draw(st.integers(0, len(packet) - 1))
            change = draw(st.binary(max_size=4) | st.sampled_from([b"\0\0\3", b"\0\0\1", b"\0\0\1\x09"]))
            packet = packet[:at] + change + packet[at + draw(st.integers(0, 4)) :]
        packets.append(packet or b"\0")
    return packets


@settings(max_examples=400)
@given(st.data())
def test_packets_that_begin_alike_are_read_at_once_as_they_are_one_by_one(data: st.DataObject) -> None:
    stream = data.draw(STREAMS)
    packets = Packets(data.draw(any_packets(stream)))
    at_once = _outcome(lambda: _columns(*read_slices(stream.config(), packets)))
    reader = _SliceReader(stream.config(), packets)
    one_by_one = _outcome(lambda: [[*map(int, reader.read(number)[1])] for number in range(len(packets.size))])
    assert at_once == (one_by_one and (one_by_one, reader.sets.active))


def _columns(slices: Slices, sps: Sps) -> tuple[list[list[int]], Sps]:
    return np.stack(slices, 1).astype(int).tolist(), sps


def _outcome(read: Callable[[], Any]) -> Any:
    """What is read; None where it is refused."""
    try:
        return read()
    except ValueError:
        return None


def test_only_the_first_packets_of_a_long_stream_are_read_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, read = Stream(), []
    packets = [
        (stream.config() + START if number % 50 == 0 else LONG_START)
        + stream.slice(0x65 if number % 50 == 0 else 0x41, number % 50 % 16, 2 * (number % 50) % 16)
        for number in range(1000)
    ]
    one_by_one = _SliceReader.read
    monkeypatch.setattr(_SliceReader, "read", lambda self, number: read.append(number) or one_by_one(self, number))
    order = h264_order(stream.config(), Packets(packets))
    assert order is not None
    assert order.frames.tolist() == list(range(1000))
    assert np.flatnonzero(order.keys).tolist() == list(range(0, 1000, 50))
    assert read == [0, 1]


@st.composite
def any_slices(draw: st.DrawFn) -> tuple[Slices, Sps]:
    """Pictures whose numbers go on as they should, but for a few."""
    stream = draw(STREAMS)
    stream = replace(stream, number_bits=draw(st.integers(4, 5)), order_bits=draw(st.integers(4, 5)))
    count = draw(st.integers(1, 60))
    columns: list[tuple[int, ...]] = []
    last = 0
    for number in range(count):
        idr = number == 0 or not draw(st.integers(0, 15))
        reference = bool(draw(st.integers(0, 30 if idr else 2)))
        frame_num = 0 if idr and draw(st.integers(0, 9)) else (last + 1) % (1 << stream.number_bits)
        frame_num = frame_num if draw(st.integers(0, 99)) else 3
        last = frame_num if reference else last
        lsb = (0 if idr else 2 * number + draw(st.integers(-4, 4))) % (1 << stream.order_bits)
        deltas = [draw(st.integers(-2, 2)) for _ in range(3)]
        columns.append((idr, idr, reference, frame_num, lsb, *deltas))
    idr, key, reference, *numbers = np.array(columns, np.int64).T
    return Slices(idr != 0, key != 0, reference != 0, *numbers), read_sps(stream.sps()[1:])


@settings(max_examples=300)
@given(any_slices())
def test_orders_are_those_that_the_standard_counts_picture_by_picture(case: tuple[Slices, Sps]) -> None:
    slices, sps = case
    counter = _OrderCounter(sps)
    orders = []
    for picture in zip(*(column.tolist() for column in slices), strict=True):
        try:
            orders.append(counter.count(*picture))
        except ValueError:
            assert pictures_are_missing(slices, sps)
            return
    assert not pictures_are_missing(slices, sps)
    counts = order_counts(slices, sps)
    assert counts.tolist() == [count for _, count in orders]
    frames = display_order(slices.idr, counts)
    if len(set(orders)) < len(orders):
        assert frames is None
    else:
        assert frames is not None
        assert frames.tolist() == sorted(range(len(orders)), key=orders.__getitem__)


@settings(max_examples=200)
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
        packet = LONG_START + stream.slice(0x65, 0, 0, (delta, 0))
        assert (h264_order(stream.config(), Packets([packet])) is not None) == is_ordered
    stream = Stream(order_type=1, cycle=(1 << 70,))
    assert h264_order(stream.config(), Packets([LONG_START + stream.slice(0x65, 0, 0)])) is None


class _OrderCounter:
    """Picture order counts of frames, one after another (ITU-T H.264, 8.2.1)."""

    def __init__(self, sps: Sps) -> None:
        self._sps, self._sequence = sps, 0
        self._msb = self._lsb = self._frame_num = self._frame_offset = self._reference_num = 0

    def count(
        self, idr: bool, _: bool, reference: bool, frame_num: int, lsb: int, bottom: int, first: int, second: int
    ) -> tuple[int, int]:
        """(coded video sequence, picture order count)."""
        sps = self._sps
        if idr:
            self._sequence += 1
            self._msb = self._lsb = self._frame_num = self._frame_offset = 0
        elif frame_num != (self._reference_num + 1) % (1 << sps.frame_num_bits):
            raise ValueError("pictures are missing")
        if reference:
            self._reference_num = frame_num
        if sps.order_type == 0:
            return self._sequence, self._by_lsb(reference, lsb, bottom)
        if frame_num < self._frame_num:
            self._frame_offset += 1 << sps.frame_num_bits
        self._frame_num = frame_num
        number = self._frame_offset + frame_num
        if sps.order_type == 2:
            return self._sequence, 2 * number - (not reference)
        expected = 0
        if number := (number - (not reference and number > 0)) if sps.offset_for_ref else 0:
            cycles, last = divmod(number - 1, len(sps.offset_for_ref))
            expected = cycles * sum(sps.offset_for_ref) + sum(sps.offset_for_ref[: last + 1])
        top = expected + (0 if reference else sps.offset_for_non_ref) + first
        return self._sequence, min(top, top + sps.offset_for_bottom + second)

    def _by_lsb(self, reference: bool, lsb: int, bottom: int) -> int:
        half = 1 << (self._sps.order_bits - 1)
        msb = self._msb
        if self._lsb - lsb >= half:
            msb += 2 * half
        elif lsb - self._lsb > half:
            msb -= 2 * half
        if reference:
            self._msb, self._lsb = msb, lsb
        return msb + lsb + min(0, bottom)


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
    keyframe = bytes.fromhex("00000165e0001080")
    packets = Packets([keyframe, keyframe, bytes.fromhex("00000141e0000001")])
    with pytest.raises(ValueError, match="ends too early"):
        read_slices(stream.config(), packets)
