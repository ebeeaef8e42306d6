"""Find the packets that an HEVC picture refers to, all named in slice headers (ITU-T H.265, 7.3.6.1 and 8.3.2)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.hevc_parameter_sets import (
    HevcSets,
    ReferencePictureSet,
    SequenceParameters,
    is_anchor,
    is_of_layer,
    read_reference_picture_set,
)
from videoloader.indexing.bitstream.nal import (
    HEVC_CRA,
    HEVC_IDR,
    HEVC_IRAP,
    iterate_nals,
    nal_length_size,
    parameter_sets,
)
from videoloader.indexing.bitstream.picture_counts import whole_count

_RASL_N, _RASL_R = 8, 9
_SPS, _PPS, _END_OF_SEQUENCE, _END_OF_STREAM, _PREFIX_SEI = 33, 34, 36, 37, 39
_FILM_GRAIN = 19
# Bytes within which slice headers name their references.
_LONGEST_SLICE_HEAD = 256
_MOST_LONG_TERM = 33


class _Order(NamedTuple):
    """A picture's order count, and the anchor from which its low bits are counted (8.3.1).

    Attributes:
        order: the picture order count.
        modulus: modulus of the part in the stream.
        anchor: packet of the picture from which it is counted (prevTid0Pic); None for the first of a sequence.
        is_anchor: whether later ones are counted from this one.
    """

    order: int
    modulus: int
    anchor: int | None
    is_anchor: bool


class HevcReferences:
    """Follows the decoded picture buffer through a run of packets. See ``references.Tracker``."""

    def __init__(self, config: bytes) -> None:
        self._length_size = nal_length_size("hevc", config)
        self._sets = HevcSets()
        for unit in parameter_sets("hevc", config):
            self._sets.take(unit)
        self._buffer: dict[int, int] = {}  # picture order count → packet
        self._orders: dict[int, _Order] = {}
        self._irap: int | None = None
        self._anchor: int | None = None
        self._without_past = True  # whether the next IRAP picture starts a coded video sequence
        self._skips_leading = True
        self._always: set[int] = set()  # packets of parameter sets and messages that last

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Process the next packet and return the packets that it needs. ValueError if the headers do not tell."""
        needs: set[int] | None = None
        for start, stop in iterate_nals(payload, self._length_size):
            if stop - start < 2:
                continue
            kind = payload[start] >> 1 & 63
            if is_of_layer(payload, start):  # another view, or transparency
                if kind < 32:
                    raise ValueError("pictures of other layers have references of their own")
                continue
            if kind < 32:
                head = bytes(payload[start : min(stop, start + _LONGEST_SLICE_HEAD)])
                if len(head) > 2 and head[2] & 0x80:  # first_slice_segment_in_pic_flag
                    if needs is not None:
                        raise ValueError("two pictures in one packet")
                    needs = self._read_picture(number, kind, head)
            elif kind in (_SPS, _PPS):
                if self._sets.take(bytes(payload[start:stop])):
                    self._always.add(number)
            elif kind in (_END_OF_SEQUENCE, _END_OF_STREAM):
                self._without_past = True
                self._always.add(number)
            elif kind == _PREFIX_SEI and stop - start > 2 and payload[start + 2] == _FILM_GRAIN:
                self._always.add(number)  # it may stay in force for the pictures that follow
        if needs is None:
            raise ValueError("no picture in the packet")
        return (needs | self._always) - {number}

    def held(self) -> set[int]:
        """Return the packets that later ones may still need."""
        held = set(self._buffer.values()) | self._always
        return held | {number for number in (self._irap, self._anchor) if number is not None}

    def needed_anchors(self, needed: Collection[int]) -> set[int]:
        """Return more pictures to decode so that order counts come out right, as each is counted from an earlier one.

        A decoder takes the order count nearest to that of the last anchor it saw. It goes wrong if the pictures left
        out span more than half of the range of the low bits.
        """
        missing: set[int] = set()
        last = 0
        for number, (order, modulus, anchor, counts_on) in self._orders.items():
            if number not in needed:
                continue
            if anchor is not None and whole_count(order % modulus, modulus, last) != order:
                missing.add(anchor)
            if counts_on:
                last = order
        return missing - set(needed)

    def _read_picture(self, number: int, kind: int, head: bytes) -> set[int]:
        is_irap = kind in HEVC_IRAP
        starts = is_irap and (kind != HEVC_CRA or self._without_past)
        if is_irap:
            self._irap, self._skips_leading, self._without_past = number, starts, False
        if self._irap is None:
            raise ValueError("pictures before the first that decoding can start at")
        if kind in (_RASL_N, _RASL_R) and self._skips_leading:
            return set()  # decoders skip it
        bits = BitReader(head[2:])
        bits.u(1)
        sequence, order = self._sets.read_slice(kind, bits)
        modulus, anchor = 1 << sequence.order_bits, None
        if starts:
            self._buffer.clear()
        else:
            anchor = self._anchor
            if anchor is None:
                raise ValueError("no picture to count on from")
            order = whole_count(order, modulus, self._orders[anchor].order)
        # IDR pictures refer to no other.
        self._buffer = {} if kind in HEVC_IDR else self._stays(bits, sequence, order)
        needs = {self._irap, *self._buffer.values()}
        self._buffer[order] = number
        counts_on = is_anchor(kind, head[1])
        self._orders[number] = _Order(order, modulus, anchor, counts_on)
        if counts_on:
            self._anchor = number
        return needs

    def _stays(self, bits: BitReader, sequence: SequenceParameters, order: int) -> dict[int, int]:
        """Return the pictures that stay in the buffer: those that the current one may use, and those kept for later
        ones.

        Both count as needed. Decoding only the former would suffice, but a decoder makes up a picture for each one that
        is named and missing, which costs more than decoding the few that are kept for later.

        Args:
            bits: slice header after the order count.
            sequence: sequence parameter set that it names.
            order: order count of the picture.
        """
        modulus = 1 << sequence.order_bits
        named = [([order + delta], used) for delta, used in _read_short_term(bits, sequence.reference_sets)]
        for low, cycles, used in _read_long_term(bits, sequence) if sequence.long_term else ():
            if cycles is None:
                named.append(([each for each in self._buffer if each % modulus == low], used))
            else:
                named.append(([order - order % modulus - cycles * modulus + low], used))
        stays: dict[int, int] = {}
        for orders, used in named:
            found = {each: self._buffer[each] for each in orders if each in self._buffer}
            if used and not found:
                raise ValueError("a reference is missing")
            stays |= found
        return stays


def _read_short_term(bits: BitReader, sets: tuple[ReferencePictureSet, ...]) -> ReferencePictureSet:
    """Read the short-term references of a slice header: its own, or one of the sequence's sets."""
    if not bits.u(1):
        return read_reference_picture_set(bits, sets, in_slice=True)
    which = bits.u((len(sets) - 1).bit_length()) if sets else 0
    if which >= len(sets):
        raise ValueError("a reference picture set is missing")
    return sets[which]


def _read_long_term(bits: BitReader, sequence: SequenceParameters) -> list[tuple[int, int | None, bool]]:
    """Read the long-term references of a slice header (7.4.7.1, 7-51 and 7-52).

    Returns:
        For each, the picture's low bits, how many whole cycles it lies back or None, and whether the current picture
        may use it.
    """
    candidates = sequence.long_term_orders
    from_sequence = bits.ue() if candidates else 0
    own = bits.ue()
    if from_sequence + own > _MOST_LONG_TERM:
        raise ValueError("more than 33 long-term references")
    found: list[tuple[int, int | None, bool]] = []
    cycles = 0
    for number in range(from_sequence + own):
        if number < from_sequence:
            which = bits.u((len(candidates) - 1).bit_length())
            if which >= len(candidates):
                raise ValueError("a long-term reference is missing")
            low, used = candidates[which]
        else:
            low, used = bits.u(sequence.order_bits), bool(bits.u(1))
        if number in (0, from_sequence):
            cycles = 0
        whole = bits.u(1)
        cycles += bits.ue() if whole else 0
        found.append((low, cycles if whole else None, used))
    return found
