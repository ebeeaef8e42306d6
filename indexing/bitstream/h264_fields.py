"""Find packets of H.264 that contain a single field, so that two packets may make one frame (ITU-T H.264, 7.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from videoloader.indexing.bitstream.h264_slices import SliceReader
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size

# Bytes of a packet that usually contain the start of its first slice, and the number to try next.
FIELD_HEAD, _LONG_HEAD = 256, 16 << 10
# Bytes of a NAL unit, with its length or start code, that contain what is read of a slice's header.
_UNIT_HEAD = 64
# nal_unit_type of units that begin with a slice header: whole slices, partition A, IDR (table 7-1).
_WITH_HEADER = (1, 2, 5)
_FRAME, _TOP_FIELD, _UNKNOWN = 0, 1, -1


class FieldReader:
    """Reads one packet after the other, and keeps the parameter sets between them.

    Args:
        record: configuration record of the first packet.
    """

    def __init__(self, record: bytes) -> None:
        self._length_size = nal_length_size("h264", record)
        self._slices = SliceReader(record)

    def is_lone_field(
        self, start: bytes, size: int | None = None, read: Callable[[int, int], bytes] | None = None
    ) -> bool:
        """Whether all slices of the next packet are of the same field, top or bottom.

        Only packets of fields are read beyond their first slice, and only up to the first slice of the other field.

        Args:
            start: first bytes of the packet; without the other arguments, all of them.
            size: number of all its bytes.
            read: returns the bytes of the packet from a position on, this many or up to its end.
        """
        if size is None or read is None:
            whole = start
            size, read = len(whole), lambda position, most: whole[position : position + most]
        first = self._field(start)
        for most in (_LONG_HEAD, size):
            if first == _UNKNOWN and len(start) < min(most, size):
                start = read(0, most)
                first = self._field(start)
        if first <= _FRAME:
            return False
        units = self._units_by_length(start, size, read) if self._length_size else self._units_by_code(read(0, size))
        return all(self._field(unit) in (first, _UNKNOWN) for unit in units)

    def _field(self, data: bytes) -> int:
        """Return whether the first slice is of a frame, the top or the bottom field, or cannot be read."""
        try:
            _, value, sps, left = self._slices.read(data)
        except ValueError:
            return _UNKNOWN
        # field_pic_flag follows frame_num, and bottom_field_flag follows it.
        left -= sps.frame_num_bits + 1
        if sps.frames_only or left < 1 or not value >> left & 1:
            return _FRAME
        return _TOP_FIELD + (value >> left - 1 & 1)

    def _units_by_length(self, start: bytes, size: int, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
        """Yield the first bytes of all slices in a packet of units with lengths."""
        position, length_size = 0, self._length_size
        while position + length_size < size:
            inside = position + _UNIT_HEAD <= min(len(start), size)
            head = start[position : position + _UNIT_HEAD] if inside else read(position, _UNIT_HEAD)
            if len(head) > length_size and head[length_size] & 31 in _WITH_HEADER:
                yield head
            position += length_size + int.from_bytes(head[:length_size], "big")

    @staticmethod
    def _units_by_code(packet: bytes) -> Iterator[bytes]:
        """Yield the first bytes of all slices in a packet of units with start codes."""
        for start, _ in iterate_nals(packet, 0):
            if packet[start] & 31 in _WITH_HEADER:
                yield packet[start - 3 : start + _UNIT_HEAD]
