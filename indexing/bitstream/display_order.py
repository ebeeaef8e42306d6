"""Find the order in which a decoder outputs pictures, from the headers of one packet after the other.

Containers state when pictures are shown, sometimes wrongly. Decoders go by picture order counts (ITU-T H.264, 8.2.1;
ITU-T H.265, 8.3.1), or by the kinds of pictures (ISO/IEC 13818-2, 6.1.1.11; ISO/IEC 14496-2, 6.1.3.5).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import Sps
from videoloader.indexing.bitstream.h264_slices import HEAD_BITS, SliceReader
from videoloader.indexing.bitstream.hevc_parameter_sets import HevcSets, is_anchor, is_of_layer
from videoloader.indexing.bitstream.nal import (
    H264_IDR,
    HEVC_CRA,
    HEVC_IRAP,
    MOST_HELD,
    iterate_nals,
    nal_length_size,
    parameter_sets,
)
from videoloader.indexing.bitstream.parameter_sets import is_set, is_slice
from videoloader.indexing.bitstream.picture_counts import whole_count
from videoloader.indexing.bitstream.picture_kinds import BIDIRECTIONAL, picture_kind

# Keys of a coded video sequence are larger than all keys of the one before. Order counts start again there; pictures
# shown before the first picture of a sequence may have counts lower than its by less than this.
_BEFORE_FIRST = 1 << 7
# Bytes of an HEVC slice header that contain its order count.
_SLICE_HEAD = 48
_LARGEST_ORDER = 1 << 32
# Maximum number of B pictures in a row.
_MOST_BETWEEN = 1 << 10


class DisplayOrder(Protocol):
    """Follows the packets of a run from where decoding starts."""

    def key(self, payload: bytes | memoryview) -> int:
        """Process the next packet, and return its picture's key: pictures are output in the order of their keys.

        Keys are not negative, and about as large as the run is long.

        Raises:
            ValueError: the headers do not tell.
        """
        ...


def display_order(codec: str, record: bytes) -> DisplayOrder | None:
    """Make an object that finds the order of a run's pictures; None for codecs that are not supported here.

    Args:
        codec: codec of the stream.
        record: configuration in force where the run starts.
    """
    if codec == "h264":
        return _H264Order(record)
    if codec == "hevc":
        return _HevcOrder(record)
    return _MpegOrder(codec) if codec in ("mpeg1video", "mpeg2video", "mpeg4") else None


class Places:
    """The positions of all pictures of a stream in display order, if its packets' headers tell.

    Args:
        codec: codec of the stream.
        record: configuration in force at its first packet.

    Attributes:
        known: keys of the packets so far; None once a packet's key cannot be determined.
    """

    def __init__(self, codec: str, record: bytes) -> None:
        self._order = display_order(codec, record)
        self.known: list[int] | None = None if self._order is None else []

    def add(self, payload: bytes, *, goes_on: bool) -> None:
        """Process the next packet; ``goes_on`` is whether the container's record is still the same."""
        if self.known is None or self._order is None:
            return
        try:
            if not goes_on:
                raise ValueError("another record begins another order")
            self.known.append(self._order.key(payload))
        except (ValueError, IndexError):
            self.known = None


class _CountedOrder:
    """Keys of pictures that have order counts, which start again with each coded video sequence."""

    _base = _highest = 0

    def _key(self, order: int, *, starts: bool) -> int:
        """Return the key of a picture with this order count, which may be the first of its coded video sequence."""
        if starts:
            self._base = self._highest + _BEFORE_FIRST - order
        key = self._base + order
        if key < 0:
            raise ValueError("a picture order count that cannot be")
        self._highest = max(self._highest, key)
        return key


class _H264Order(_CountedOrder):
    """Orders pictures by the order counts of top fields, or of the only field (ITU-T H.264, 8.2.1)."""

    def __init__(self, record: bytes) -> None:
        self._slices = SliceReader(record)
        # For the last picture that others refer to: frame_num, counted on over all wraps, and its order count.
        self._number, self._anchor = -1, 0

    def key(self, payload: bytes | memoryview) -> int:
        header, value, sps, left = self._slices.read(payload)
        left -= sps.frame_num_bits
        size = 1 << sps.frame_num_bits
        number = (value >> left) % size
        if not sps.frames_only:
            # field_pic_flag, followed by bottom_field_flag.
            left -= 1 + (value >> left - 1 & 1)
        is_idr, is_reference = header & 31 == H264_IDR, header & 0x60 != 0
        if is_idr:
            # idr_pic_id, an Exp-Golomb code.
            left -= 2 * (left - (value & (1 << left) - 1).bit_length()) + 1
        starts = is_idr or self._number < 0
        if not starts:
            # If pictures are left out, numbers are missing. Memory management operation 5 resets them (7.4.3).
            step = (number - self._number) % size
            if step > min(MOST_HELD, size // 2):
                raise ValueError("frame numbers do not follow each other")
            number = self._number + step
        if sps.order_type == 0:
            left -= sps.order_bits
            if left < 0:
                raise ValueError("a slice header ends too early")
            order = (value >> left) % (1 << sps.order_bits)
            if not starts:
                order = whole_count(order, 1 << sps.order_bits, self._anchor)
        elif sps.order_type == 1:
            bits = BitReader.raw(value.to_bytes(HEAD_BITS // 8, "big"))
            bits.u(HEAD_BITS - left)
            order = _order_by_number(sps, number, bits, is_reference=is_reference)
        else:
            # In decoding order (8.2.1.3).
            order = self._highest - self._base + 1
        if is_reference or starts:
            self._number, self._anchor = number, order
        return self._key(order, starts=starts)


def _order_by_number(sps: Sps, number: int, bits: BitReader, *, is_reference: bool) -> int:
    """Compute a picture order count of type 1 (ITU-T H.264, 8.2.1.2).

    Args:
        sps: sequence parameter set of the picture.
        number: its frame_num, counted on over all wraps.
        bits: its slice header from delta_pic_order_cnt[0] on.
        is_reference: whether others may refer to it.
    """
    order, cycle = bits.se() if sps.order_deltas else 0, sps.offset_for_ref
    if cycle:
        cycles, rest = divmod(number - (not is_reference and number > 0), len(cycle))
        order += cycles * sum(cycle) + sum(cycle[:rest])
    if not is_reference:
        order += sps.offset_for_non_ref
    if abs(order) >= _LARGEST_ORDER:
        raise ValueError("a picture order count that cannot be")
    return order


class _HevcOrder(_CountedOrder):
    """Orders pictures by picture order counts (ITU-T H.265, 8.3.1)."""

    def __init__(self, record: bytes) -> None:
        self._length_size = nal_length_size("hevc", record)
        self._sets = HevcSets()
        for unit in parameter_sets("hevc", record):
            self._take(unit)
        self._anchor: int | None = None

    def key(self, payload: bytes | memoryview) -> int:
        start = self._length_size
        if not start or payload[start] & 0x7E >= 64 or is_of_layer(payload, start):
            start = self._find_slice(payload)
        kind = payload[start] >> 1 & 63
        bits = BitReader(bytes(payload[start + 2 : start + 2 + _SLICE_HEAD]))
        if not bits.u(1):
            raise ValueError("a picture does not begin with its first slice")
        sequence, low = self._sets.read_slice(kind, bits)
        order, anchor = low, self._anchor
        starts = anchor is None or (kind in HEVC_IRAP and kind != HEVC_CRA)
        if anchor is not None and not starts:
            order = whole_count(low, 1 << sequence.order_bits, anchor)
        if anchor is None or is_anchor(kind, payload[start + 1]):
            self._anchor = order
        return self._key(order, starts=starts)

    def _find_slice(self, payload: bytes | memoryview) -> int:
        """Return the start of the first slice of a packet, after taking in the sets before it."""
        for start, stop in iterate_nals(payload, self._length_size):
            if stop - start < 3 or is_of_layer(payload, start):
                continue
            if is_slice("hevc", payload[start]):
                return start
            if is_set("hevc", payload[start]):
                self._take(bytes(payload[start:stop]))
        raise ValueError("a packet has no picture")

    def _take(self, unit: bytes) -> None:
        with suppress(ValueError):
            self._sets.take(unit)


class _MpegOrder:
    """Orders pictures by kind: B pictures are shown at once, others when the next non-B picture comes."""

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._reference = self._last = 0

    def key(self, payload: bytes | memoryview) -> int:
        kind = picture_kind(self._codec, bytes(payload))
        if kind is None:
            raise ValueError("a packet has no picture")
        if kind == BIDIRECTIONAL:
            self._last += 1
            return self._last
        self._last, self._reference = self._reference, self._reference + _MOST_BETWEEN
        return self._reference
