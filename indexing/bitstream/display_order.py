"""In which order a decoder gives out the pictures it is fed, from the headers of one packet after the other.

Containers tell when pictures are shown, and some tell it wrongly. Decoders go by picture order counts (ITU-T H.264,
8.2.1; ITU-T H.265, 8.3.1), or by the kinds of pictures (ISO/IEC 13818-2, 6.1.1.11; ISO/IEC 14496-2, 6.1.3.5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import SetsByPicture, Sps
from videoloader.indexing.bitstream.hevc_parameter_sets import (
    PictureParameters,
    SequenceParameters,
    read_picture_parameters,
    read_sequence_parameters,
)
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.parameter_sets import Sets, is_set, is_slice, named_sets, sets_of_record

# Keys of a coded video sequence lie above all of the one before it. Order counts begin anew there; what is shown before
# the first picture of a sequence may have counts lower than its by less than this.
_BEFORE_FIRST = 1 << 7
# Bytes of a slice header that hold its order count.
_SLICE_HEAD = 12
_LONG_SLICE_HEAD = 48
_LARGEST_ORDER = 1 << 32
# B pictures in a row, at most.
_MOST_BETWEEN = 1 << 10
# Numbers of H.264 frames that may be missing: leading pictures that are left out.
_MOST_MISSING = 16
_I, _P, _B = 1, 2, 3  # picture_coding_type of ISO/IEC 13818-2, table 6-12


class DisplayOrder(Protocol):
    """Follows a run of packets from where decoding starts."""

    def key(self, payload: bytes | memoryview) -> int:
        """Take in the next packet: its picture is given out after all those with smaller keys.

        Keys are not negative, and about as large as the run is long.

        Raises:
            ValueError: that cannot be told.
        """
        ...


def display_order(codec: str, record: bytes) -> DisplayOrder | None:
    """What tells the order of a run's pictures; None for codecs that are not read here.

    Args:
        codec: of the stream.
        record: the configuration in force where the run starts.
    """
    return _ORDERS[codec](record) if codec in _ORDERS else None


class Places:
    """Where all the pictures of a stream come in display order, if its packets' headers tell.

    Args:
        codec: the stream's codec.
        record: the configuration in force at its first packet.

    Attributes:
        known: the keys of its packets so far; None once one does not tell.
    """

    def __init__(self, codec: str, record: bytes) -> None:
        self._order = display_order(codec, record)
        self.known: list[int] | None = None if self._order is None else []

    def add(self, payload: bytes, *, goes_on: bool) -> None:
        """Take in the next packet; ``goes_on`` is whether the configuration is still that of the container's record."""
        if self.known is None or self._order is None:
            return
        try:
            if not goes_on:
                raise ValueError("another record begins another order")
            self.known.append(self._order.key(payload))
        except (ValueError, IndexError):
            self.known = None


class _Slices(ABC):
    """Parameter sets of H.264 or HEVC by number, as they come along."""

    _codec: str

    def __init__(self, record: bytes) -> None:
        self._length_size = nal_length_size(self._codec, record)
        self._take(sets_of_record(self._codec, record))
        self._base = self._highest = 0

    def _key(self, order: int, *, starts: bool) -> int:
        """The key of a picture with this order count, which may be the first of its coded video sequence."""
        if starts:
            self._base = self._highest + _BEFORE_FIRST - order
        key = self._base + order
        if key < 0:
            raise ValueError("a picture order count that cannot be")
        self._highest = max(self._highest, key)
        return key

    @abstractmethod
    def _take(self, sets: Sets) -> None:
        """Let sets take the place of those of their kind and number."""

    def _find_slice(self, payload: bytes | memoryview) -> int:
        """Where the first slice of a packet begins; sets before it are taken in."""
        found = -1
        units: list[bytes] = []
        for start, stop in iterate_nals(payload, self._length_size):
            if self._codec == "hevc" and (stop - start < 3 or is_of_layer(payload, start)):
                continue
            if is_slice(self._codec, payload[start]):
                found = start
                break
            if is_set(self._codec, payload[start]):
                units.append(bytes(payload[start:stop]))
        if units:
            self._take(named_sets(self._codec, units))
        if found < 0:
            raise ValueError("a packet has no picture")
        return found


# Exp-Golomb codes (ITU-T H.264, 9.1) of up to seven bits: their length, 0 for longer ones, and their number.
_CODES = [
    (2 * zeros + 1, (bits >> 6 - 2 * zeros) - 1) if (zeros := 7 - bits.bit_length()) < 4 else (0, 0)
    for bits in range(128)
]
_HEAD_BITS = 8 * _SLICE_HEAD


class _H264Order(_Slices):
    _codec = "h264"

    def __init__(self, record: bytes) -> None:
        self._sets = SetsByPicture()
        super().__init__(record)
        self._fed = 0
        self._msb = self._lsb = 0
        self._frame_num = -1
        self._cycles = 0

    def _take(self, sets: Sets) -> None:
        self._sets.take(sets.values())

    def key(self, payload: bytes | memoryview) -> int:
        start = self._length_size
        if not start or payload[start] & 31 not in (1, 5):
            start = self._find_slice(payload)
        first = payload[start]
        head = bytes(payload[start + 1 : start + 1 + _SLICE_HEAD])
        if len(head) < _SLICE_HEAD or b"\0\0\3" in head:
            head = bytes(payload[start + 1 : start + 1 + _LONG_SLICE_HEAD]).replace(b"\0\0\3", b"\0\0")
            head = head[:_SLICE_HEAD].ljust(_SLICE_HEAD, b"\0")
        value = int.from_bytes(head, "big")
        # What follows is asked for each packet, and so is not cut into functions: see _begin.
        length, _ = _CODES[value >> _HEAD_BITS - 8 & 127]
        left = _HEAD_BITS - 1 - length
        length_of_pps, number = _CODES[value >> left - 7 & 127]
        left -= length_of_pps
        sps = self._sets.of.get(number)
        if sps is None or not length or not length_of_pps or not value >> _HEAD_BITS - 1:
            sps, left = self._begin(value)
        bits = sps.frame_num_bits
        left -= bits + 2 * sps.separate_planes
        frame_num = value >> left & (1 << bits) - 1
        if not sps.frames_only:
            # field_pic_flag, and bottom_field_flag behind it.
            left -= 1 + (value >> left - 1 & 1)
        is_idr, is_reference = first & 31 == 5, first & 0x60 != 0
        before = self._frame_num
        if is_idr:
            # idr_pic_id, an Exp-Golomb code.
            left -= 2 * (left - (value & (1 << left) - 1).bit_length()) + 1
            self._msb = self._lsb = self._cycles = 0
        elif frame_num != before and before >= 0:
            # Where pictures are left out, numbers are missing. Memory management operation 5 sets them back (7.4.3).
            if frame_num - before & (1 << bits) - 1 > min(_MOST_MISSING, 1 << bits - 1):
                raise ValueError("frame numbers do not follow each other")
            self._cycles += (frame_num < before) << bits
        starts = is_idr or before < 0
        if is_reference or starts:
            self._frame_num = frame_num
        if sps.order_type:
            order = self._by_frame_num(sps, value, left, self._cycles + frame_num, is_reference)
        else:
            # Type 0 (8.2.1.1), of the top field or the only one.
            left -= sps.order_bits
            if left < 0:
                raise ValueError("a slice header ends too early")
            size = 1 << sps.order_bits
            lsb = value >> left & size - 1
            msb, last = self._msb, self._lsb
            if starts:
                last = lsb
            elif lsb < last and last - lsb >= size >> 1:
                msb += size
            elif lsb > last and lsb - last > size >> 1:
                msb -= size
            if is_reference or starts:
                self._msb, self._lsb = msb, lsb
            order = msb + lsb
        return self._key(order, starts=starts)

    def _begin(self, value: int) -> tuple[Sps, int]:
        """The sequence parameter set that a slice header names by its first three numbers, and the bits behind them."""
        bits = BitReader.raw(value.to_bytes(_SLICE_HEAD, "big"))
        bits.ue()
        bits.ue()
        sps = self._sets.of.get(bits.ue())
        if sps is None:
            raise ValueError("a slice names a parameter set that is not there")
        return sps, bits.left

    def _by_frame_num(self, sps: Sps, value: int, left: int, number: int, is_reference: bool) -> int:
        """Picture order count of types 1 and 2 (8.2.1.2, 8.2.1.3), of the top field or the only one."""
        if sps.order_type == 2:
            self._fed += 1
            return self._fed
        length = len(sps.offset_for_ref)
        expected = 0
        if length:
            cycles, rest = divmod(number - (not is_reference and number > 0), length)
            expected = cycles * sum(sps.offset_for_ref) + sum(sps.offset_for_ref[:rest])
        if not is_reference:
            expected += sps.offset_for_non_ref
        if sps.order_deltas:
            bits = BitReader.raw(value.to_bytes(_SLICE_HEAD, "big"))
            bits.u(_HEAD_BITS - left)
            expected += bits.se()
        if abs(expected) >= _LARGEST_ORDER:
            raise ValueError("a picture order count that cannot be")
        return expected


class _HevcOrder(_Slices):
    _codec = "hevc"

    def __init__(self, record: bytes) -> None:
        self._sps: dict[int, SequenceParameters] = {}
        self._pps: dict[int, PictureParameters] = {}
        super().__init__(record)
        self._anchor: int | None = None

    def _take(self, sets: Sets) -> None:
        for (kind, _), unit in sets.items():
            with suppress(ValueError):
                if kind == 33:
                    sequence = read_sequence_parameters(unit)
                    self._sps[sequence.number] = sequence
                elif kind == 34:
                    picture = read_picture_parameters(unit)
                    self._pps[picture.number] = picture

    def key(self, payload: bytes | memoryview) -> int:
        start = self._length_size
        if not start or payload[start] & 0x7E >= 64 or is_of_layer(payload, start):
            start = self._find_slice(payload)
        kind, temporal = payload[start] >> 1 & 63, payload[start + 1] & 7
        head = bytes(payload[start + 2 : start + 2 + _LONG_SLICE_HEAD])
        bits = BitReader(head)
        if not bits.u(1):
            raise ValueError("a picture does not begin with its first slice")
        is_irap = 16 <= kind <= 23
        if is_irap:
            bits.u(1)
        picture = self._pps.get(bits.ue())
        sequence = self._sps.get(picture.sequence) if picture else None
        if picture is None or sequence is None:
            raise ValueError("a slice names a parameter set that is not there")
        starts = (is_irap and kind != 21) or self._anchor is None
        if kind in (19, 20):
            self._anchor = 0
            return self._key(0, starts=True)
        bits.u(picture.extra_bits)
        bits.ue()
        bits.u(picture.output_flag + 2 * sequence.separate_planes)
        size = 1 << sequence.order_bits
        order = low = bits.u(sequence.order_bits)
        if not starts and self._anchor is not None:
            before = self._anchor % size
            order = self._anchor - before + low
            if low < before and before - low >= size >> 1:
                order += size
            elif low > before and low - before > size >> 1:
                order -= size
        # Of the lowest layer, and neither leading nor one that no other refers to (8.3.1, prevTid0Pic).
        if (temporal == 1 and not 6 <= kind <= 9 and (kind > 14 or kind % 2)) or self._anchor is None:
            self._anchor = order
        return self._key(order, starts=starts)


def is_of_layer(payload: bytes | memoryview, start: int) -> bool:
    """Whether an HEVC NAL unit is of another layer than the base (nuh_layer_id; ITU-T H.265, 7.3.1.2)."""
    return payload[start] & 1 != 0 or payload[start + 1] >> 3 != 0


class _MpegOrder:
    """B pictures are shown at once, others when the next such picture comes."""

    def __init__(self, kind_of: Callable[[bytes | memoryview], int]) -> None:
        self._kind_of = kind_of
        self._reference = self._last = 0

    def key(self, payload: bytes | memoryview) -> int:
        if self._kind_of(payload) == _B:
            self._last += 1
            return self._last
        self._last, self._reference = self._reference, self._reference + _MOST_BETWEEN
        return self._reference


def _mpeg2_kind(payload: bytes | memoryview) -> int:
    data = bytes(payload)
    start = data.find(b"\0\0\1\0")
    if not 0 <= start < len(data) - 5:
        raise ValueError("a packet has no picture")
    return data[start + 5] >> 3 & 7


def _mpeg4_kind(payload: bytes | memoryview) -> int:
    data = bytes(payload)
    start = data.find(b"\0\0\1\xb6")
    if not 0 <= start < len(data) - 4:
        raise ValueError("a packet has no picture")
    return (_I, _P, _B, _P)[data[start + 4] >> 6]


_ORDERS: dict[str, Callable[[bytes], DisplayOrder]] = {
    "h264": _H264Order,
    "hevc": _HevcOrder,
    "mpeg1video": lambda record: _MpegOrder(_mpeg2_kind),
    "mpeg2video": lambda record: _MpegOrder(_mpeg2_kind),
    "mpeg4": lambda record: _MpegOrder(_mpeg4_kind),
}
