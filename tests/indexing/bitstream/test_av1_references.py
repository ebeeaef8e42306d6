"""Which slots AV1 frames read and write, with headers as wide as the specification allows."""

from __future__ import annotations

import pytest
from bit_writing import BitWriter
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.av1 import Obu, iterate_obus, read_sequence_header
from videoloader.indexing.bitstream.av1_references import read_frame_header
from videoloader.indexing.bitstream.references import ReferenceClosure

KEY, INTER, INTRA_ONLY, SWITCH = range(4)
flags = st.integers(0, 1)


def obu(kind: int, body: bytes, layers: tuple[int, int] | None = None) -> bytes:
    """A unit with its size, and with its temporal and spatial layer if it has them."""
    extension = bytes([layers[0] << 5 | layers[1] << 3]) if layers else b""
    return bytes([kind << 3 | (4 if layers else 0) | 2]) + extension + bytes([len(body)]) + body


class Sequence:
    """A sequence header (AV1 specification, 5.5.1) drawn at random, and frame headers to it (5.9.2)."""

    def __init__(self, data: st.DataObject) -> None:
        self.layers = data.draw(st.lists(st.sampled_from([0, 0x101, 0x107, 0x303]), min_size=1, max_size=3))
        timing, self.model = data.draw(flags), 0
        self.equal = data.draw(flags)
        bits = BitWriter().u(0, 5).u(timing, 1)
        if timing:
            bits.u(1, 32).u(25, 32).u(self.equal, 1)
            if self.equal:
                bits.ue(data.draw(st.integers(0, 300)))
            self.model = data.draw(flags)
            bits.u(self.model, 1)
        self.removal_bits, self.presentation_bits = data.draw(st.integers(1, 32)), data.draw(st.integers(1, 32))
        if self.model:
            bits.u(9, 5).u(1, 32).u(self.removal_bits - 1, 5).u(self.presentation_bits - 1, 5)
        delays = data.draw(flags)
        bits.u(delays, 1).u(len(self.layers) - 1, 5)
        self.with_removal = []
        for layers in self.layers:
            level = data.draw(st.sampled_from([4, 12]))
            bits.u(layers, 12).u(level, 5).u(0, 1 if level > 7 else 0)
            if self.model:
                present = data.draw(flags)
                bits.u(present, 1).u(0, 21 * present)
                self.with_removal += [layers] * present
            if delays:
                present = data.draw(flags)
                bits.u(present, 1).u(0, 4 * present)
        bits.u(8, 4).u(9, 4).u(300, 9).u(700, 10)
        self.ids = data.draw(flags)
        bits.u(self.ids, 1)
        if self.ids:
            bits.u(3, 4).u(2, 3)  # differences of 5 bits, ids of 8
        bits.u(0, 3).u(0, 4)
        self.ordered = data.draw(flags)
        bits.u(self.ordered, 1).u(0, 2 * self.ordered)
        self.screen = data.draw(st.sampled_from([0, 1, 2]))
        bits.u(self.screen == 2, 1).u(self.screen % 2, int(self.screen != 2))
        self.integer = 2
        if self.screen:
            self.integer = data.draw(st.sampled_from([0, 1, 2]))
            bits.u(self.integer == 2, 1).u(self.integer % 2, int(self.integer != 2))
        self.order_bits = 7 if self.ordered else 0
        bits.u(6, 3 * self.ordered).u(0, 3).u(0, 8)  # then the colour configuration
        self.body = bits.bytes()

    def frame(
        self, data: st.DataObject, kind: int, refreshes: int, named: list[int], layers: tuple[int, int] | None = None
    ) -> bytes:
        """A shown or hidden frame that names these slots."""
        shown = int(kind == KEY and refreshes == 255) or data.draw(flags)
        if kind == KEY and shown:
            refreshes = 255
        bits = BitWriter().u(0, 1).u(kind, 2).u(shown, 1)
        if not shown:
            bits.u(0, 1)
        elif self.model and not self.equal:
            bits.u(0, self.presentation_bits)
        resilient = 1
        if kind != SWITCH and not (kind == KEY and shown):
            resilient = data.draw(flags)
            bits.u(resilient, 1)
        screen = self.screen if self.screen != 2 else data.draw(flags)
        bits.u(0, 1).u(screen, int(self.screen == 2)).u(0, int(screen and self.integer == 2))
        bits.u(77, 8 * self.ids).u(0, int(kind != SWITCH)).u(5, self.order_bits)
        if kind in (INTER, SWITCH) and not resilient:
            bits.u(7, 3)
        if self.model:
            present = data.draw(flags)
            bits.u(present, 1)
            for each in self.with_removal:
                temporal, spatial = layers or (0, 0)
                if present and (not each or (each >> temporal & 1 and each >> (spatial + 8) & 1)):
                    bits.u(0, self.removal_bits)
        if kind != SWITCH and not (kind == KEY and shown):
            bits.u(refreshes, 8)
        if kind in (INTER, SWITCH):
            if resilient and self.ordered:
                bits.u(0, 8 * self.order_bits)
            bits.u(0, self.ordered)
            for slot in named:
                bits.u(slot, 3).u(0, 5 * self.ids)
        return bits.bytes() + b"\x55" * 8


slots = st.lists(st.integers(0, 7), min_size=7, max_size=7)


@given(st.data())
def test_frames_read_the_slots_they_name(data: st.DataObject) -> None:
    sequence = Sequence(data)
    kind = data.draw(st.sampled_from([KEY, INTER, INTRA_ONLY, SWITCH]))
    refreshes = 255 if kind == SWITCH else data.draw(st.integers(0, 255))
    named = data.draw(slots)
    layers = data.draw(st.none() | st.tuples(st.integers(0, 2), st.integers(0, 1)))
    body = sequence.frame(data, kind, refreshes, named, layers)
    unit = Obu(6, *(layers or (0, 0)), layers is not None, 0, len(body))
    frame = read_frame_header(body, unit, read_sequence_header(sequence.body))
    assert frame.kind == kind
    assert frame.refreshes == (255 if kind == KEY and frame.is_shown else refreshes)
    assert frame.reads == (set(named) if kind in (INTER, SWITCH) else set())


def existing(slot: int) -> bytes:
    return obu(3, BitWriter().u(1, 1).u(slot, 3).bytes())


PLAIN = BitWriter().u(0, 6).u(0, 1).u(0, 5).u(0, 12).u(4, 5).u(7, 4).u(7, 4).u(127, 8).u(127, 8).u(0, 1).u(0, 3)
PLAIN = PLAIN.u(0, 4).u(1, 1).u(0, 2).u(0, 1).u(0, 1).u(6, 3).u(0, 11).bytes()


def frame(kind: int, refreshes: int, named: list[int] | None = None, *, shown: int = 1, short: int = 0) -> bytes:
    """A frame of a stream with the sequence header PLAIN."""
    bits = BitWriter().u(0, 1).u(kind, 2).u(shown, 1).u(0, 1 - shown)
    bits.u(0, int(kind != KEY or not shown)).u(0, 1).u(0, 1).u(0, 7).u(0, 3 * (kind == INTER))
    bits.u(refreshes, 8 * (kind != KEY or not shown))
    if kind == INTER:
        bits.u(short, 1)
        for slot in (named or [0] * 7)[: 2 if short else 7]:
            bits.u(slot, 3)
    return obu(6, bits.bytes() + b"\x55" * 8)


def kept(packets: list[bytes], wanted: set[int]) -> set[int]:
    asked = [number in wanted for number in range(len(packets))]
    needed = ReferenceClosure("av1", b"").needed(packets, asked, more_follow=False)
    return {number for number, each in enumerate(needed) if each}


START = obu(2, b"") + obu(1, PLAIN) + frame(KEY, 255)


def test_a_packet_with_a_hidden_frame_is_kept_for_those_that_use_it() -> None:
    hidden_and_shown = frame(INTER, 1 << 3, shown=0) + frame(INTER, 1 << 4, [3] * 7)
    packets = [START, frame(INTER, 1 << 1), hidden_and_shown, frame(INTER, 0, [4] * 7), existing(3), existing(1)]
    assert kept(packets, {3}) == {0, 2, 3}
    assert kept(packets, {4}) == {0, 2, 4}
    assert kept(packets, {5}) == {0, 1, 5}


def test_a_key_frame_shown_later_replaces_all_slots_then() -> None:
    packets = [
        START,
        frame(INTER, 4),
        frame(KEY, 1 << 5, shown=0) + frame(INTER, 2),
        existing(5),
        frame(INTER, 2, [7] * 7),
    ]
    assert kept(packets, {4}) == {0, 2, 3, 4}


def test_references_told_by_order_hints_need_all_slots() -> None:
    packets = [START, *(frame(INTER, 1 << slot) for slot in range(4)), frame(INTER, 0, short=1)]
    assert kept(packets, {5}) == set(range(6))


def test_an_empty_slot_keeps_all() -> None:
    start = obu(2, b"") + obu(1, PLAIN) + frame(KEY, 1, shown=0)
    packets = [start, frame(INTER, 2), frame(INTER, 2), frame(INTER, 4, [5] * 7), frame(INTER, 0), frame(INTER, 0)]
    assert kept(packets, {0}) == {*range(6)}


def test_two_shown_frames_in_a_packet_keep_all() -> None:
    packets = [START, frame(INTER, 0), frame(INTER, 0) + frame(INTER, 0), frame(INTER, 0), frame(INTER, 0, [1] * 7)]
    assert kept(packets, {4}) == {*range(5)}
    hidden_first = [*packets[:2], frame(INTER, 2, shown=0) + frame(INTER, 0), *packets[3:]]
    assert kept(hidden_first, {3}) == {0, 3}


def test_another_sequence_header_is_kept() -> None:
    changed = PLAIN[:-1] + bytes([PLAIN[-1] ^ 1, 0])
    packets = [START, obu(1, PLAIN) + frame(INTER, 0), obu(1, changed) + frame(INTER, 0), frame(INTER, 0)]
    assert kept(packets, {3}) == {0, 2, 3}


@pytest.mark.parametrize("damaged", [b"\x32\x7f\0", b"\xb2\0", b"\x32\x80\x80", b"\x36", b"\x32" + b"\xff" * 9 + b"\1"])
def test_units_that_do_not_fill_the_packet_are_an_error(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="AV1 unit"):
        list(iterate_obus(damaged))


def test_layers_that_decoders_leave_out_are_passed_over() -> None:
    one_layer = BitWriter().u(0, 6).u(0, 1).u(0, 5).u(0x101, 12).u(4, 5).u(7, 4).u(7, 4).u(127, 8).u(127, 8).u(0, 1)
    sequence = one_layer.u(0, 3).u(0, 4).u(1, 1).u(0, 2).u(0, 1).u(0, 1).u(6, 3).u(0, 11).bytes()
    upper = bytearray(frame(INTER, 1))
    upper[0] |= 4
    upper.insert(1, 1 << 5)
    start = obu(2, b"") + obu(1, sequence) + frame(KEY, 255)
    packets = [start, frame(INTER, 2) + bytes(upper), frame(INTER, 0), frame(INTER, 0, [1] * 7)]
    assert kept(packets, {2}) == {0, 2}
    assert kept(packets, {3}) == {0, 1, 3}
