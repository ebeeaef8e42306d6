"""Which packets a VP9 frame needs: it names three references, and mostly builds on the frame before it as well."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader

_SLOTS = 8
_SYNC_CODE = 0x498342
_RGB = 7
_LONGEST_HEAD = 32  # bytes: references stand within these


class FrameHeader(NamedTuple):
    """What a frame reads and writes.

    Attributes:
        shown: the slot that is shown as it is; None for a frame of its own.
        is_key: a key frame, which forgets all before it.
        resilient: whether it takes nothing from earlier frames but its references.
        refreshes: bit mask of the slots it is stored in.
        reads: the slots it names.
    """

    shown: int | None
    is_key: bool
    resilient: bool
    refreshes: int
    reads: frozenset[int]


class Vp9References:
    """Follows the reference slots through a run of packets. See ``references.Tracker``.

    A frame that is not error resilient takes more from those before it than its references: probabilities,
    motion vectors, segments, filter strengths. Which of the frames before left these depends on much that stands
    deep in the headers, and decoders differ in it; so it counts as needing all of them.
    """

    def __init__(self, config: bytes) -> None:
        del config  # vpcC tells nothing of references
        self._slots: list[int | None] = [None] * _SLOTS
        self._past: set[int] = set()  # what a frame that is not error resilient needs

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Take in the next packet; the packets that it needs. ValueError where that cannot be told."""
        needs: set[int] = set()
        frames = split_superframe(payload)
        if not frames:
            raise ValueError("no frame in the packet")
        for start, stop in frames:
            needs |= self._read_frame(
                number, read_frame_header(bytes(payload[start : min(stop, start + _LONGEST_HEAD)]))
            )
        return needs - {number}

    def held(self) -> set[int]:
        """The packets that later ones may still need."""
        return {slot for slot in self._slots if slot is not None} | self._past

    def needed_anchors(self, needed: Collection[int]) -> set[int]:
        """None: frames are told apart by their packets alone."""
        return set()

    def _read_frame(self, number: int, frame: FrameHeader) -> set[int]:
        reads = frame.reads if frame.shown is None else {frame.shown}
        needs: set[int] = set()
        for slot in reads:
            packet = self._slots[slot]
            if packet is None:
                raise ValueError("a reference is missing")
            needs.add(packet)
        if frame.is_key:
            self._past = {number}
        elif frame.resilient or frame.shown is not None:
            self._past = self._past | {number}
        else:
            if not self._past:
                raise ValueError("no key frame to begin with")
            needs |= self._past
            self._past = {number}
        for slot in range(_SLOTS):
            if frame.refreshes >> slot & 1:
                self._slots[slot] = number
        return needs


def split_superframe(payload: bytes | memoryview) -> list[tuple[int, int]]:
    """(start, stop) of the frames in a packet (VP9 bitstream specification, annex B)."""
    size = len(payload)
    if not size:
        return []
    marker = payload[size - 1]
    if marker & 0xE0 != 0xC0:
        return [(0, size)]
    width, count = (marker >> 3 & 3) + 1, (marker & 7) + 1
    index = size - 2 - width * count
    if index < 0 or payload[index] != marker:
        return [(0, size)]
    frames = []
    position = 0
    for number in range(count):
        at = index + 1 + number * width
        length = int.from_bytes(payload[at : at + width], "little")
        if position + length > index:
            raise ValueError("a frame ends after its superframe")
        if length:
            frames.append((position, position + length))
        position += length
    return frames


def read_frame_header(head: bytes) -> FrameHeader:
    """uncompressed_header up to the references (6.2, 7.2). ValueError where it is damaged."""
    bits = BitReader(head[:_LONGEST_HEAD], emulation_prevention=False)
    if bits.u(2) != 2:
        raise ValueError("no VP9 frame marker")
    profile = bits.u(1) | bits.u(1) << 1
    if profile == 3 and bits.u(1):
        raise ValueError("a VP9 profile that is not known")
    if bits.u(1):
        return FrameHeader(bits.u(3), False, True, 0, frozenset())
    is_key, shown, resilient = not bits.u(1), bits.u(1), bool(bits.u(1))
    if is_key:
        _check_sync(bits)
        return FrameHeader(None, True, True, 0xFF, frozenset())
    intra_only = not shown and bits.u(1)
    bits.u(0 if resilient else 2)
    if intra_only:
        _check_sync(bits)
        if profile:
            bits.u(profile >= 2)
            rgb = bits.u(3) == _RGB
            bits.u(0 if rgb else 1)
            bits.u((1 if rgb else 3) if profile & 1 else 0)
        return FrameHeader(None, False, resilient, bits.u(_SLOTS), frozenset())
    refreshes = bits.u(_SLOTS)
    named = []
    for _ in range(3):
        named.append(bits.u(3))
        bits.u(1)
    return FrameHeader(None, False, resilient, refreshes, frozenset(named))


def _check_sync(bits: BitReader) -> None:
    if bits.u(24) != _SYNC_CODE:
        raise ValueError("no VP9 sync code")
