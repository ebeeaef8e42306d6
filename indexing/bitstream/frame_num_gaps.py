"""Detect missing H.264 pictures by leaps in the pictures' numbers (frame_num; ITU-T H.264, 7.4.3)."""

from __future__ import annotations

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_slices import HEAD_BITS, SliceReader
from videoloader.indexing.bitstream.nal import H264_IDR

_B = 1  # slice_type, table 7-6; plus 5 if all slices of the picture are of that type


class FrameNumGaps:
    """Follows the numbers of pictures through all packets of a run, including pictures that no other refers to.

    A picture's number follows that of the last picture before it that others refer to. libavcodec goes by the last
    picture of any kind: a picture with a wrong number makes it invent others, even if nothing refers to that picture.
    Memory management operation 5, which resets numbers, looks like missing pictures. So do gaps that a stream
    explicitly allows, of which no other picture makes use.

    Args:
        record: configuration record of the packets.

    Attributes:
        guessed: whether the last packet is a B picture after missing ones. libavcodec invents missing pictures with the
            pixels of another picture, and with whatever motion vectors are in memory, which B pictures may use.
        is_reference: whether others may refer to the last packet, as far as is known.
        restarts: whether it is an IDR picture.

    Examples:
        >>> numbers = FrameNumGaps(avcc)
        >>> [numbers.show_missing(packets[number]) for number in (0, 5, 6)]
        [False, True, False]
    """

    def __init__(self, record: bytes) -> None:
        self._slices = SliceReader(record)
        # Number of the last picture that others refer to, and of the last one of any kind, by which libavcodec goes.
        self._last: int | None = None
        self._before: int | None = None
        self._invented = False
        self.guessed = self.is_reference = self.restarts = False

    def restart(self) -> None:
        """Take the next packet for the first one, with the parameter sets of those before."""
        self._last = self._before = None
        self._invented = False

    def show_missing(self, payload: bytes | memoryview) -> bool:
        """Process the next packet, and return whether reference pictures are missing, or seem so to libavcodec.

        It returns False if that cannot be determined.
        """
        self.guessed = self.is_reference = self.restarts = False
        try:
            header, value, sps, left = self._slices.read(payload)
        except ValueError:
            self._last = None
            return False
        bits = sps.frame_num_bits
        highest = (1 << bits) - 1
        number, last, before = value >> left - bits & highest, self._last, self._before
        self._before = number
        self.is_reference, self.restarts = header & 0x60 != 0, header & 31 == H264_IDR
        if self.is_reference or last is None:
            self._last = number
        if self.restarts:
            self._invented = False
            return False
        leaps = before is not None and number - before & highest > 1
        if leaps:
            self._invented = True
        if self._invented:
            slice_header = BitReader.raw(value.to_bytes(HEAD_BITS // 8, "big"))
            slice_header.ue()  # first_mb_in_slice
            self.guessed = slice_header.ue() % 5 == _B
        return leaps or (last is not None and number - last & highest > 1)
