"""The display order of H.264 pictures, from their slice headers (ITU-T H.264, 7.3.3 and 8.2.1)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import Pps, Sps, read_pps, read_sps
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets
from videoloader.indexing.bitstream.picture_order import PacketHeads, PictureOrder
from videoloader.indexing.bitstream.random_access import is_random_access

_SLICE, _IDR_SLICE, _SEI, _SPS, _PPS = 1, 5, 6, 7, 8
_HARMLESS = {9, 10, 11, 12}  # access unit delimiter, ends of sequence and stream, filler
_LONGEST_SLICE_HEADER = 48  # bytes, of the part read here


class _Unit(NamedTuple):
    """A NAL unit in the first bytes of a packet; ``complete`` is False where it may go on behind them."""

    kind: int
    reference: bool
    payload: bytes
    complete: bool


class _Picture(NamedTuple):
    idr: bool
    reference: bool
    sps: Sps
    frame_num: int
    order_lsb: int
    bottom_delta: int
    deltas: tuple[int, int]


def h264_order(config: bytes, packets: PacketHeads) -> PictureOrder | None:
    """The order that a decoder gives frames out in, or None where these headers do not settle it.

    They do not with field pictures, several sequence parameter sets, a start that is no IDR picture, and reordering
    that the stream does not state: a decoder must then guess its depth, and drops frames where it guesses wrong. Nor is
    the order told of streams whose pictures state their own times.

    Args:
        config: avcC, or parameter sets with start codes.
        packets: one access unit each.
    """
    try:
        return _order(config, packets)
    except ValueError:
        return None


def _order(config: bytes, packets: PacketHeads) -> PictureOrder | None:
    length_size = nal_length_size("h264", config)
    sets = _ParameterSets()
    for unit in parameter_sets("h264", config):
        sets.add(unit[0] & 31, unit[1:])
    counter = _OrderCounter()
    orders: list[tuple[int, int]] = []
    keys: list[bool] = []
    for number, (head, size) in enumerate(zip(packets, packets.size.tolist(), strict=True)):
        picture, has_sei = _first_picture(head, length_size, sets, len(head) == size)
        if picture is None:
            head = packets.whole(number)
            picture, has_sei = _first_picture(head, length_size, sets, True)
        if picture is None:
            return None
        if not picture.idr and not keys:
            return None
        keys.append(picture.idr or (has_sei and is_random_access("h264", config, head)))
        orders.append(counter.count(picture))
    if not orders or len(set(orders)) != len(orders) or sets.active is None:
        return None
    if sets.active.timed or sorted(orders) != _given_out(orders, sets.active.reordered or 0):
        return None
    frames = np.array(sorted(range(len(orders)), key=orders.__getitem__))
    return PictureOrder(frames, np.array(keys), late=np.ones(len(orders), np.bool_))


class _ParameterSets:
    """The parameter sets seen so far. ``active`` is the only sequence parameter set that pictures may use."""

    def __init__(self) -> None:
        self.active: Sps | None = None
        self._sps: dict[int, Sps] = {}
        self._pps: dict[int, Pps] = {}
        self._seen: set[bytes] = set()

    def add(self, kind: int, payload: bytes) -> None:
        if payload in self._seen:
            return
        self._seen.add(payload)
        if kind == _SPS:
            sps = read_sps(payload)
            self._sps[sps.number] = sps
        elif kind == _PPS:
            pps = read_pps(payload)
            self._pps[pps.number] = pps

    def activate(self, number: int) -> tuple[Sps, Pps]:
        pps = self._pps.get(number)
        sps = self._sps.get(pps.sps) if pps else None
        if pps is None or sps is None:
            raise ValueError("a slice names a parameter set that is not there")
        if self.active is None:
            self.active = sps
        elif sps != self.active:
            raise ValueError("the sequence parameter set changes")
        return sps, pps


def _first_picture(head: bytes, length_size: int, sets: _ParameterSets, whole: bool) -> tuple[_Picture | None, bool]:
    """(the packet's first slice header, whether an SEI message comes before it); None where more bytes are needed."""
    has_sei = False
    for unit in _units(head, length_size, whole):
        if unit.kind in (_SLICE, _IDR_SLICE):
            if not unit.complete and len(unit.payload) < _LONGEST_SLICE_HEADER:
                return None, has_sei
            return _read_slice(unit, sets), has_sei
        if not unit.complete:
            return None, has_sei
        if unit.kind in (_SPS, _PPS):
            sets.add(unit.kind, unit.payload)
        elif unit.kind == _SEI:
            has_sei = True
        elif unit.kind not in _HARMLESS:
            raise ValueError(f"a NAL unit of type {unit.kind} is not read here")
    if whole:
        raise ValueError("a packet has no picture")
    return None, has_sei


def _units(head: bytes, length_size: int, whole: bool) -> Iterator[_Unit]:
    if not length_size:
        for start, stop in iterate_nals(head, 0):
            yield _unit(head, start, stop, whole or stop < len(head))
        return
    position = 0
    while position + length_size < len(head):
        start = position + length_size
        position = start + int.from_bytes(head[position:start], "big")
        yield _unit(head, start, position, position <= len(head))


def _unit(head: bytes, start: int, stop: int, complete: bool) -> _Unit:
    # Zeros before the next start code are no part of a NAL unit.
    kind = head[start] & 31
    payload = head[start + 1 : stop] if kind in (_SLICE, _IDR_SLICE) else head[start + 1 : stop].rstrip(b"\0")
    return _Unit(kind, head[start] & 0x60 != 0, payload, complete)


def _read_slice(unit: _Unit, sets: _ParameterSets) -> _Picture:
    bits = BitReader(unit.payload[:_LONGEST_SLICE_HEADER])
    if bits.ue() != 0:
        raise ValueError("a picture does not begin with its first macroblock")
    bits.ue()
    sps, pps = sets.activate(bits.ue())
    if sps.separate_planes:
        bits.u(2)
    frame_num = bits.u(sps.frame_num_bits)
    if not sps.frames_only and bits.u(1):
        raise ValueError("a picture is a field")
    idr = unit.kind == _IDR_SLICE
    if idr:
        bits.ue()
    lsb = bottom = first = second = 0
    if sps.order_type == 0:
        lsb = bits.u(sps.order_bits)
        if pps.bottom_order:
            bottom = bits.se()
    elif sps.order_deltas:
        first = bits.se()
        if pps.bottom_order:
            second = bits.se()
    return _Picture(idr, unit.reference, sps, frame_num, lsb, bottom, (first, second))


class _OrderCounter:
    """Picture order counts of frames (ITU-T H.264, 8.2.1).

    Memory management operation 5 starts both counts anew; it stands behind what is read here, but the gap that it
    leaves in frame_num is seen.
    """

    def __init__(self) -> None:
        self._sequence = 0
        self._msb = self._lsb = self._frame_num = self._frame_offset = self._reference_num = 0

    def count(self, picture: _Picture) -> tuple[int, int]:
        """(coded video sequence, picture order count): what frames are shown by."""
        if picture.idr:
            self._sequence += 1
            self._msb = self._lsb = self._frame_num = self._frame_offset = 0
        elif picture.frame_num != (self._reference_num + 1) % (1 << picture.sps.frame_num_bits):
            raise ValueError("pictures are missing")
        if picture.reference:
            self._reference_num = picture.frame_num
        sps = picture.sps
        if sps.order_type == 0:
            return self._sequence, self._by_lsb(picture)
        if picture.frame_num < self._frame_num:
            self._frame_offset += 1 << sps.frame_num_bits
        self._frame_num = picture.frame_num
        number = self._frame_offset + picture.frame_num
        if sps.order_type == 1:
            return self._sequence, _by_cycle(picture, number)
        return self._sequence, 2 * number - (not picture.reference)

    def _by_lsb(self, picture: _Picture) -> int:
        """Type 0 (8.2.1.1)."""
        half = 1 << (picture.sps.order_bits - 1)
        msb, lsb = self._msb, picture.order_lsb
        if self._lsb - lsb >= half:
            msb += 2 * half
        elif lsb - self._lsb > half:
            msb -= 2 * half
        if picture.reference:
            self._msb, self._lsb = msb, lsb
        return msb + lsb + min(0, picture.bottom_delta)


def _by_cycle(picture: _Picture, number: int) -> int:
    """Type 1 (8.2.1.2)."""
    sps = picture.sps
    cycle = sps.offset_for_ref
    if not cycle:
        number = 0
    elif not picture.reference and number > 0:
        number -= 1
    expected = 0
    if number > 0:
        cycles, last = divmod(number - 1, len(cycle))
        expected = cycles * sum(cycle) + sum(cycle[: last + 1])
    if not picture.reference:
        expected += sps.offset_for_non_ref
    top = expected + picture.deltas[0]
    return min(top, top + sps.offset_for_bottom + picture.deltas[1])


def _given_out(orders: list[tuple[int, int]], held: int) -> list[tuple[int, int]]:
    """The orders as a decoder gives them out that holds so many pictures back (the "bumping" of C.4.5.3)."""
    waiting: list[tuple[int, int]] = []
    given = []
    for order in orders:
        if len(waiting) < held:
            heapq.heappush(waiting, order)
        else:
            given.append(heapq.heappushpop(waiting, order))
    return [*given, *sorted(waiting)]
