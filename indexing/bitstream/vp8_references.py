"""Find the packets that a VP8 frame needs: all that leave state behind, which not every frame does."""

from __future__ import annotations

from typing import NamedTuple

from videoloader.indexing.bitstream.reference_slots import ReferenceSlots

_START_CODE = b"\x9d\x01\x2a"
_LONGEST_HEAD = 64  # bytes that contain everything read of a header


class Settings(NamedTuple):
    """The settings that stay in force until another frame changes them.

    Attributes:
        segments: whether the segments' values replace those of the frame, quantizers, filter levels (RFC 6386, 9.3).
        filters: differences of the filter level by reference frame and by mode (9.6).
    """

    segments: tuple[int, ...] = (0,) * 9
    filters: tuple[int, ...] = (0,) * 8


class FrameHeader(NamedTuple):
    """The data that a frame takes from earlier ones and leaves behind (RFC 6386, 9.2 to 9.11).

    Attributes:
        settings: settings after this frame.
        writes_map: True if it states the segment of every block.
        uses_map: whether its blocks have the segments that earlier frames stated.
        writes_probabilities: whether later frames begin with its probabilities.
        writes_last, writes_golden, writes_altref: True if it replaces these reference frames.
    """

    settings: Settings
    writes_map: bool
    uses_map: bool
    writes_probabilities: bool
    writes_last: bool
    writes_golden: bool
    writes_altref: bool


class Vp8References(ReferenceSlots):
    """Follows what lasts through a run of packets. See ``references.Tracker``."""

    def __init__(self, config: bytes) -> None:
        del config  # VP8 has none
        # The slots are the last, the golden and the altref frame, and the frame that settings and probabilities come
        # from. ``_besides`` are the frames from which the segment of each block may come.
        super().__init__(4)
        self._settings = Settings()

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Process the next packet and return the packets that it needs. ValueError if the headers do not tell."""
        head = bytes(payload[:_LONGEST_HEAD])
        if is_key_frame(head):
            self._settings = read_frame_header(head, Settings()).settings
            self._slots, self._besides = [number] * 4, {number}
            return set()
        needs = self._packets_in(range(4))
        frame = read_frame_header(head, self._settings)
        if frame.uses_map:
            needs |= self._besides
        self._besides = {number} if frame.writes_map or frame.uses_map else self._besides | {number}
        # Frames that only repeat what is in force already can still be left out.
        lasts = frame.writes_probabilities or frame.settings != self._settings
        writes = (frame.writes_last, frame.writes_golden, frame.writes_altref, lasts)
        self._slots = [number if written else slot for slot, written in zip(self._slots, writes, strict=True)]
        self._settings = frame.settings
        return needs


def is_key_frame(head: bytes) -> bool:
    """Whether a frame forgets everything before it (9.1). ValueError if it is damaged."""
    if len(head) < 4 or (not head[0] & 1 and head[3:6] != _START_CODE):
        raise ValueError("no VP8 frame")
    return not head[0] & 1


def read_frame_header(head: bytes, settings: Settings) -> FrameHeader:
    """Read the frame header of RFC 6386, 9.2 to 9.11 and 19.2. ValueError if it is damaged.

    Args:
        head: first bytes of the frame.
        settings: settings before this frame.
    """
    is_key = is_key_frame(head)
    bits = _BoolReader(head[10 if is_key else 3 :])
    bits.u(2 * is_key)
    segments, filters = settings
    segmented = bits.u(1)
    writes_map = 0
    if segmented:
        writes_map, writes_segments = bits.u(1), bits.u(1)
        if writes_segments:
            absolute = bits.u(1)
            segments = (absolute, *(bits.optional(7, 0) for _ in range(4)), *(bits.optional(6, 0) for _ in range(4)))
        if writes_map:
            for _ in range(3):
                bits.u(8 * bits.u(1))
    bits.u(10)
    if bits.u(1) and bits.u(1):
        filters = tuple(bits.optional(6, each) for each in filters)
    bits.u(2 + 7)
    for _ in range(5):
        bits.optional(4, 0)
    golden = altref = last = 1
    if not is_key:
        golden, altref = bits.u(1), bits.u(1)
        golden = golden or bits.u(2)
        altref = altref or bits.u(2)
        bits.u(2)
    probabilities = bits.u(1)
    if not is_key:
        last = bits.u(1)
    return FrameHeader(
        Settings(segments, filters),
        bool(writes_map),
        bool(segmented and not writes_map),
        bool(probabilities),
        bool(last),
        bool(golden),
        bool(altref),
    )


class _BoolReader:
    """The boolean entropy decoder of RFC 6386, 7.3, for bits that are equally likely zero and one."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data) - 8  # bits after the eight that are in use
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

    def optional(self, bits: int, otherwise: int) -> int:
        """Read a number and its sign, if the bit before them is set."""
        if not self.u(1):
            return otherwise
        number = self.u(bits)
        return -number if self.u(1) else number
