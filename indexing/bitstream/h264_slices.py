"""The first slice header of every packet of H.264 (ITU-T H.264, 7.3.3), as far as the order of pictures needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import Pps, Sps, read_pps, read_sps
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size, parameter_sets
from videoloader.indexing.bitstream.picture_counts import read_ue
from videoloader.indexing.bitstream.picture_order import PacketHeads, alike
from videoloader.indexing.bitstream.random_access import is_random_access

_SLICE, _IDR_SLICE, _SEI, _SPS, _PPS = 1, 5, 6, 7, 8
_HARMLESS = {9, 10, 11, 12}  # access unit delimiter, ends of sequence and stream, filler
_LONGEST_SLICE_HEADER = 48  # bytes, of the part read here
_USUAL_HEADERS = 1024  # bytes, of all that stands before a slice
# Packets looked at one by one for how others begin too: usual streams have one beginning for keyframes and one more.
_LAYOUTS_TRIED = 8
_LARGEST_DELTA = (1 << 31) - 1  # of picture order counts (7.4.3)
_WINDOW = 8  # bytes of a slice header that are read at once
_SHORT = 31  # numbers below have codes of so few bits that all that is read at once stands in the window


class Slices(NamedTuple):
    """The pictures of packets in decode order, by their first slice headers; each field has one entry a packet.

    Attributes:
        idr: bool, an IDR picture.
        key: bool, decoding can start here.
        reference: bool, others may refer to it.
        frame_num: int64.
        order_lsb: int64, pic_order_cnt_lsb.
        bottom_delta: int64, delta_pic_order_cnt_bottom.
        first_delta, second_delta: int64, delta_pic_order_cnt[0] and [1].
    """

    idr: npt.NDArray[np.bool_]
    key: npt.NDArray[np.bool_]
    reference: npt.NDArray[np.bool_]
    frame_num: npt.NDArray[np.int64]
    order_lsb: npt.NDArray[np.int64]
    bottom_delta: npt.NDArray[np.int64]
    first_delta: npt.NDArray[np.int64]
    second_delta: npt.NDArray[np.int64]


class _Unit(NamedTuple):
    """A NAL unit in the first bytes of a packet; ``complete`` is False where it may go on behind them."""

    start: int
    kind: int
    reference: bool
    payload: bytes
    complete: bool


class _Found(NamedTuple):
    """The first slice of a packet.

    Attributes:
        start: of its NAL unit in the packet.
        has_sei: whether SEI messages come before it.
        idr: as in Slices.
        numbers: the fields of Slices from ``reference`` on.
    """

    start: int
    has_sei: bool
    idr: bool
    numbers: tuple[int, ...]


def read_slices(config: bytes, packets: PacketHeads) -> tuple[Slices, Sps]:
    """The first slice header of each packet, and the sequence parameter set that all of them name.

    Args:
        config: avcC, or parameter sets with start codes.
        packets: one access unit each.

    Raises:
        ValueError: a packet has no slice, is a field, begins with another macroblock than the first, or names
            parameter sets that are not there or not those of the other packets.
    """
    reader = _SliceReader(config, packets)
    count = len(packets.size)
    columns = reader.read_alike()
    if columns is None:
        reader = _SliceReader(config, packets)
        columns = np.array([reader.read(number)[1] for number in range(count)], np.int64).T
    idr, key, reference, *numbers = columns
    if reader.sets.active is None:
        raise ValueError("there are no packets")
    return Slices(idr != 0, key != 0, reference != 0, *numbers), reader.sets.active


class _ParameterSets:
    """The parameter sets seen so far. ``active`` is the only sequence parameter set that pictures may use."""

    def __init__(self, config: bytes) -> None:
        self.active: Sps | None = None
        self.pps: dict[int, Pps] = {}
        self.seen: set[bytes] = set()
        self._sps: dict[int, Sps] = {}
        for unit in parameter_sets("h264", config):
            self.add(unit[0] & 31, unit[1:])

    def add(self, kind: int, payload: bytes) -> None:
        payload = payload.rstrip(b"\0")  # zeros before the next start code are no part of a NAL unit
        if payload in self.seen:
            return
        self.seen.add(payload)
        if kind == _SPS:
            sps = read_sps(payload)
            self._sps[sps.number] = sps
        elif kind == _PPS:
            pps = read_pps(payload)
            self.pps[pps.number] = pps

    def activate(self, number: int) -> tuple[Sps, Pps]:
        pps = self.pps.get(number)
        sps = self._sps.get(pps.sps) if pps else None
        if pps is None or sps is None:
            raise ValueError("a slice names a parameter set that is not there")
        offsets = (sps.offset_for_non_ref, sps.offset_for_bottom, *sps.offset_for_ref)
        if max(map(abs, offsets)) > _LARGEST_DELTA:
            raise ValueError("a sequence parameter set has numbers that cannot be")
        if self.active is None:
            self.active = sps
        elif sps != self.active:
            raise ValueError("the sequence parameter set changes")
        return sps, pps


class _SliceReader:
    """Reads slices packet by packet, and those of packets that begin alike at once."""

    def __init__(self, config: bytes, packets: PacketHeads) -> None:
        self.sets = _ParameterSets(config)
        self._config, self._packets = config, packets
        self._length_size = nal_length_size("h264", config)
        self._row_size = packets.rows.shape[1]
        self._heads = packets.rows.data.cast("B")
        self._sizes = packets.size.tolist()

    def read(self, number: int) -> tuple[_Found, tuple[int, ...]]:
        """Bit by bit: (the first slice of a packet, its row of Slices)."""
        size = self._sizes[number]
        begin = number * self._row_size
        head = bytes(self._heads[begin : begin + min(size, self._row_size)])
        found = self._find(head, len(head) == size)
        for most in (_USUAL_HEADERS, size):
            if found is None and len(head) < size:
                head = self._packets.start(number, most)
                found = self._find(head, len(head) == size)
        if found is None:
            raise ValueError("a packet ends before its slice header does")
        key = found.idr or (found.has_sei and is_random_access("h264", self._config, head))
        return found, (found.idr, bool(key), *found.numbers)

    def read_alike(self) -> npt.NDArray[np.int64] | None:
        """int64[8, P], the fields of Slices; None where parameter sets come up between pictures, so that order matters.

        A packet that begins with the same bytes as another, up to its slice, holds the same units up to there.
        """
        known = len(self.sets.seen)
        columns = np.zeros((8, len(self._sizes)), np.int64)
        left = np.arange(len(self._sizes))
        tried = 0
        while len(left):
            number = int(left[0])
            found, columns[:, number] = self.read(number)
            if len(self.sets.seen) > known:
                return None
            left = left[1:]
            tried += 1
            if found.start + 1 + _WINDOW <= self._row_size and self._all_alike():
                alike, read = self._read_at(found.start, self._beginning_like(number, found.start, left))
                for column, values in enumerate(read):
                    columns[column, alike] = values
                if found.has_sei:
                    before = self._packets.start(number, found.start)
                    columns[1, alike] |= is_random_access("h264", self._config, before + bytes([_SLICE]))
                is_left = np.ones(len(self._sizes), np.bool_)
                is_left[alike] = False
                left = left[is_left[left]]
            if tried == _LAYOUTS_TRIED:
                break
        for number in left.tolist():
            columns[:, number] = self.read(number)[1]
            if len(self.sets.seen) > known:
                return None
        return columns

    def _all_alike(self) -> bool:
        """Whether slice headers have the same plain fields all through: frames only, with start codes."""
        sps = self.sets.active
        plain = sps is not None and sps.frames_only and not sps.separate_planes and sps.order_type != 1
        pps = self.sets.pps.values()
        return plain and not self._length_size and len({each.sps for each in pps}) == 1 and not any(
            each.bottom_order for each in pps
        )  # fmt: skip

    def _beginning_like(self, number: int, length: int, others: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of the packets that begin with the same bytes as one, and are longer than those."""
        others = alike(self._packets.rows, number, np.arange(self._row_size) < length, others)
        return others[self._packets.size[others] > length]

    def _read_at(
        self, start: int, numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[Any]]]:
        """(those of the packets that have a usual slice header there, their first columns of Slices)."""
        sps = self.sets.active
        assert sps is not None
        rows = self._packets.rows[numbers, start : start + 1 + _WINDOW]
        kind, reference, window = rows[:, 0] & 31, rows[:, 0] & 0x60 != 0, rows[:, 1:]
        idr = kind == _IDR_SLICE
        usual = (idr | (kind == _SLICE)) & (window[:, 0] >> 7 == 1)  # first_mb_in_slice is 0
        usual &= self._packets.size[numbers] > start + 1 + _WINDOW
        # Two zero bytes may belong to the next start code, and what is behind them be no part of the header.
        zero = window == 0
        usual &= ~(zero[:, 1:] & zero[:, :-1]).any(1) & ~zero[:, -1]
        bits = np.ascontiguousarray(window).view(">u8")[:, 0].astype(np.uint64) << np.uint64(1)
        slice_type, bits = read_ue(bits)
        pps, bits = read_ue(bits)
        frame_num, bits = _field(bits, sps.frame_num_bits)
        idr_pic_id, behind_id = read_ue(bits)
        usual &= (slice_type < _SHORT) & (pps < _SHORT) & np.isin(pps, [*self.sets.pps])
        usual &= ~idr | (idr_pic_id < _SHORT)
        order_lsb = np.zeros(len(rows), np.int64)
        if sps.order_type == 0:
            order_lsb, _ = _field(np.where(idr, behind_id, bits), sps.order_bits)
        return numbers[usual], [column[usual] for column in (idr, idr, reference, frame_num, order_lsb)]

    def _find(self, head: bytes, whole: bool) -> _Found | None:
        """The first slice in the first bytes of a packet; None where more of them are needed."""
        has_sei = False
        for unit in _units(head, self._length_size, whole):
            if unit.kind in (_SLICE, _IDR_SLICE):
                if not unit.complete and len(unit.payload) < _LONGEST_SLICE_HEADER:
                    return None
                return _Found(unit.start, has_sei, unit.kind == _IDR_SLICE, _read_slice(unit, self.sets))
            if not unit.complete:
                return None
            if unit.kind in (_SPS, _PPS):
                self.sets.add(unit.kind, unit.payload)
            elif unit.kind == _SEI:
                has_sei = True
            elif unit.kind not in _HARMLESS:
                raise ValueError(f"a NAL unit of type {unit.kind} is not read here")
        if whole:
            raise ValueError("a packet has no picture")
        return None


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
    return _Unit(start, head[start] & 31, head[start] & 0x60 != 0, head[start + 1 : stop], complete)


def _read_slice(unit: _Unit, sets: _ParameterSets) -> tuple[int, ...]:
    """(reference, frame_num, order_lsb, bottom_delta, first_delta, second_delta) of Slices."""
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
    if unit.kind == _IDR_SLICE:
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
    if max(map(abs, (bottom, first, second))) > _LARGEST_DELTA:
        raise ValueError("a slice header has a number that cannot be")
    return unit.reference, frame_num, lsb, bottom, first, second


def _field(bits: npt.NDArray[np.uint64], length: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """(number in the first bits, what follows)."""
    return (bits >> np.uint64(64 - length)).astype(np.int64), bits << np.uint64(length)
