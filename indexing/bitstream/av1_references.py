"""Find the packets that an AV1 frame refers to: everything kept from frame to frame is in eight slots."""

from __future__ import annotations

from typing import NamedTuple

from videoloader.indexing.bitstream.av1 import (
    CHOSEN_BY_FRAME,
    SEQUENCE_HEADER,
    Obu,
    SequenceHeader,
    iterate_obus,
    read_sequence_header,
    units_of_record,
)
from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.reference_slots import ReferenceSlots

WITH_FRAME_HEADER = 3, 6  # alone, or before its tiles
KEY, _INTER, _INTRA_ONLY, _SWITCH = range(4)
_SLOTS = 8
# Bytes within which frame headers name their references.
_LONGEST_HEAD = 256


class FrameHeader(NamedTuple):
    """The slots that a frame reads and writes.

    Attributes:
        shown: slot that is shown unchanged; None for a new frame.
        kind: frame_type.
        is_shown: show_frame.
        refreshes: bit mask of the slots in which it is stored.
        reads: the slots it names.
    """

    shown: int | None
    kind: int
    is_shown: bool
    refreshes: int
    reads: frozenset[int]


class Av1References(ReferenceSlots):
    """Follows the reference slots through a run of packets. See ``references.Tracker``."""

    def __init__(self, config: bytes) -> None:
        super().__init__(_SLOTS)
        self._header = b""
        self._sequence: SequenceHeader | None = None
        self._is_key = [False] * _SLOTS
        units = units_of_record(config)
        for obu in iterate_obus(units):
            if obu.kind == SEQUENCE_HEADER:
                self._take_sequence(units[obu.start : obu.stop])

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Process the next packet and return the packets that it needs. ValueError if the headers do not tell."""
        needs: set[int] = set()
        has_frame, shown = False, 0
        for obu in iterate_obus(payload):
            if obu.kind == SEQUENCE_HEADER:
                if self._take_sequence(bytes(payload[obu.start : obu.stop])):
                    self._besides.add(number)  # the sequence header changes
            elif obu.kind in WITH_FRAME_HEADER:
                if self._sequence is None:
                    raise ValueError("the sequence header is missing")
                if is_decoded(obu, self._sequence):
                    has_frame = True
                    head = bytes(payload[obu.start : min(obu.stop, obu.start + _LONGEST_HEAD)])
                    frame = read_frame_header(head, obu, self._sequence)
                    needs |= self._read_frame(number, frame)
                    shown += frame.is_shown
        if not has_frame:
            raise ValueError("no frame in the packet")
        if shown > 1:
            raise ValueError("several pictures in the packet")
        return (needs | self._besides) - {number}

    def _take_sequence(self, header: bytes) -> bool:
        """Keep a sequence header, and return whether it differs from the last one."""
        changed = header != self._header
        self._header, self._sequence = header, read_sequence_header(header)
        return changed

    def _read_frame(self, number: int, frame: FrameHeader) -> set[int]:
        if frame.shown is not None:
            needs = self._packets_in([frame.shown])
            if self._is_key[frame.shown]:  # showing a key frame stores it in all slots (7.21)
                self._slots, self._is_key = [number] * _SLOTS, [True] * _SLOTS
            return needs
        needs = self._packets_in(frame.reads)
        for slot in range(_SLOTS):
            if frame.refreshes >> slot & 1:
                self._slots[slot], self._is_key[slot] = number, frame.kind == KEY
        return needs


def is_decoded(obu: Obu, sequence: SequenceHeader) -> bool:
    """Whether the unit belongs to the first operating point, which decoders choose (5.9.1, 7.3.2)."""
    layers = sequence.layers[0]
    return not layers or not obu.has_layers or _holds(layers, obu)


def _holds(layers: int, obu: Obu) -> bool:
    return bool(layers >> obu.temporal_layer & 1 and layers >> (obu.spatial_layer + 8) & 1)


def read_frame_header(head: bytes, obu: Obu, sequence: SequenceHeader) -> FrameHeader:
    """Read uncompressed_header up to the references (5.9.2)."""
    if sequence.reduced:
        return FrameHeader(None, KEY, True, 0xFF, frozenset())
    bits = BitReader.raw(head)
    if bits.u(1):
        return FrameHeader(bits.u(3), _INTER, True, 0, frozenset())
    kind, shown = bits.u(2), bits.u(1)
    bits.u(sequence.presentation_bits if shown else 1)
    resilient = kind == _SWITCH or (kind == KEY and shown) or bits.u(1)
    bits.u(1)
    screen_content = bits.u(1) if sequence.screen_content == CHOSEN_BY_FRAME else sequence.screen_content
    if screen_content and sequence.integer_motion == CHOSEN_BY_FRAME:
        bits.u(1)
    bits.u(sequence.id_bits)
    bits.u(kind != _SWITCH)
    bits.u(sequence.order_bits)
    is_intra = kind in (KEY, _INTRA_ONLY)
    bits.u(0 if is_intra or resilient else 3)  # the primary reference frame is one of those named below
    if sequence.has_decoder_model and bits.u(1):
        bits.u(sequence.removal_bits * sum(not each or _holds(each, obu) for each in sequence.removal_layers))
    refreshes = 0xFF if kind == _SWITCH or (kind == KEY and shown) else bits.u(_SLOTS)
    if is_intra:
        return FrameHeader(None, kind, bool(shown), refreshes, frozenset())
    if resilient:
        bits.u(_SLOTS * sequence.order_bits)
    if sequence.order_bits and bits.u(1):
        # The references follow from the order hints in all slots (7.8).
        return FrameHeader(None, kind, bool(shown), refreshes, frozenset(range(_SLOTS)))
    named = []
    for _ in range(7):
        named.append(bits.u(3))
        bits.u(sequence.id_difference_bits)
    return FrameHeader(None, kind, bool(shown), refreshes, frozenset(named))
