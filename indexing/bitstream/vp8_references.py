"""Which packets a VP8 frame needs: any may use all that lasts, but not every frame leaves something that lasts."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

_START_CODE = b"\x9d\x01\x2a"
_LONGEST_HEAD = 160  # bytes: all that is read of a header stands within these


class FrameHeader(NamedTuple):
    """What a frame leaves behind (RFC 6386, 9.2 to 9.11).

    Attributes:
        is_key: a key frame, which forgets all before it.
        writes_map: whether it tells the segment of every block.
        uses_map: whether its blocks have the segments that earlier frames told.
        writes_settings: whether probabilities, segments' settings or filter strengths change for later frames.
        writes_last, writes_golden, writes_altref: the reference frames it changes.
    """

    is_key: bool
    writes_map: bool = True
    uses_map: bool = False
    writes_settings: bool = True
    writes_last: bool = True
    writes_golden: bool = True
    writes_altref: bool = True


class Vp8References:
    """Follows what lasts through a run of packets. See ``references.Tracker``."""

    def __init__(self, config: bytes) -> None:
        del config  # VP8 has none
        self._last = self._golden = self._altref = self._settings = -1
        self._map: set[int] = set()  # the packets that the segment of each block may be from

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Take in the next packet; the packets that it needs. ValueError where that cannot be told."""
        frame = read_frame_header(bytes(payload[:_LONGEST_HEAD]))
        needs: set[int] = set()
        if not frame.is_key:
            if self._last < 0:
                raise ValueError("no key frame to begin with")
            needs = {self._last, self._golden, self._altref, self._settings}
        if frame.uses_map:
            needs |= self._map
        if frame.is_key or frame.writes_map or frame.uses_map:
            self._map = {number}
        else:
            self._map = self._map | {number}
        self._last = number if frame.writes_last else self._last
        self._golden = number if frame.writes_golden else self._golden
        self._altref = number if frame.writes_altref else self._altref
        self._settings = number if frame.writes_settings else self._settings
        return needs

    def held(self) -> set[int]:
        """The packets that later ones may still need."""
        return self._map | ({self._last, self._golden, self._altref, self._settings} - {-1})

    def needed_anchors(self, needed: Collection[int]) -> set[int]:
        """None: frames are told apart by their packets alone."""
        return set()


def read_frame_header(head: bytes) -> FrameHeader:
    """The frame header of RFC 6386, 9.2 to 9.11 and 19.2. ValueError where it is damaged."""
    if len(head) < 4:
        raise ValueError("a VP8 frame without a header")
    if not head[0] & 1:
        if head[3:6] != _START_CODE:
            raise ValueError("no VP8 start code")
        return FrameHeader(True)
    bits = _BoolReader(head[3:])
    segmented = bits.u(1)
    writes_map = settings = 0
    if segmented:
        writes_map, settings = bits.u(1), bits.u(1)
        if settings:
            bits.u(1)
            bits.skip_optional(4, 8)
            bits.skip_optional(4, 7)
        if writes_map:
            bits.skip_optional(3, 8)
    bits.u(10)
    if bits.u(1) and bits.u(1):
        settings = 1
        bits.skip_optional(8, 7)
    bits.u(2 + 7)
    bits.skip_optional(5, 5)
    golden, altref = bits.u(1), bits.u(1)
    golden = golden or bits.u(2)
    altref = altref or bits.u(2)
    bits.u(2)
    refreshes_probabilities, last = bits.u(1), bits.u(1)
    return FrameHeader(
        False,
        bool(writes_map),
        bool(segmented and not writes_map),
        bool(settings or refreshes_probabilities),
        bool(last),
        bool(golden),
        bool(altref),
    )


class _BoolReader:
    """The boolean entropy decoder of RFC 6386, 7.3, for bits that are as likely one as zero."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data) - 8  # bits after the eight that are looked at
        self._range = 255

    def u(self, bits: int) -> int:
        number = 0
        for _ in range(bits):
            split = (1 + ((self._range - 1) >> 1)) << self._left
            bit = self._value >= split
            number = number << 1 | bit
            if bit:
                self._value -= split
                self._range -= split >> self._left
            else:
                self._range = split >> self._left
            shift = 8 - self._range.bit_length()
            self._range <<= shift
            self._left -= shift
            if self._left < 0:
                raise ValueError("a VP8 header ends too early")
        return number

    def skip_optional(self, count: int, bits: int) -> None:
        """Pass over values that stand there only if the bit before each is set."""
        for _ in range(count):
            if self.u(1):
                self.u(bits)
