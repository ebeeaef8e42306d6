"""Numbers that H.264 pictures have, by which one sees that some are missing (frame_num; ITU-T H.264, 7.4.3)."""

from __future__ import annotations

from videoloader.indexing.bitstream.h264_slices import SliceReader


class FrameNumbers:
    """Follows the numbers of pictures through all packets of a run to which others may refer.

    A picture has the number that comes after that of the last one before it that is referred to. Memory management
    operation 5, which sets numbers back, looks as if pictures were missing.

    Args:
        record: the configuration record of the packets.

    Example:
        >>> numbers = FrameNumbers(avcc)
        >>> [numbers.show_missing(packets[number]) for number in (0, 5, 6)]
        [False, True, False]
    """

    def __init__(self, record: bytes) -> None:
        self._slices = SliceReader(record)
        self._last: int | None = None

    def show_missing(self, payload: bytes | memoryview) -> bool:
        """Take in the next packet; whether pictures that were referred to are missing before it.

        False where that cannot be told, or where the stream is allowed to leave out numbers.
        """
        try:
            header, value, sps, left = self._slices.read(payload)
        except ValueError:
            self._last = None
            return False
        bits = sps.frame_num_bits
        number, last = value >> left - bits & (1 << bits) - 1, self._last
        if header & 0x60 or last is None:
            self._last = number
        if header & 31 == 5 or last is None:  # an IDR picture
            return False
        return (number - last & (1 << bits) - 1) > 1 and not sps.gaps_allowed
