"""Which packets a VP9 frame needs: it names three references, and mostly builds on the frame before it as well."""

from __future__ import annotations

from collections.abc import Collection

from videoloader.indexing.bitstream.vp9 import LONGEST_HEAD, SLOTS, FrameHeader, read_frame_header, split_superframe


class Vp9References:
    """Follows the reference slots through a run of packets. See ``references.Tracker``.

    A frame that is not error resilient takes more from those before it than its references: probabilities,
    motion vectors, segments, filter strengths. Which of the frames before left these depends on much that stands
    deep in the headers, and decoders differ in it; so it counts as needing all of them.
    """

    def __init__(self, config: bytes) -> None:
        del config  # vpcC tells nothing of references
        self._slots: list[int | None] = [None] * SLOTS
        self._past: set[int] = set()  # what a frame that is not error resilient needs

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Take in the next packet; the packets that it needs. ValueError where that cannot be told."""
        needs: set[int] = set()
        frames = split_superframe(payload)
        if not frames:
            raise ValueError("no frame in the packet")
        for start, stop in frames:
            needs |= self._read_frame(
                number, read_frame_header(bytes(payload[start : min(stop, start + LONGEST_HEAD)]))
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
        for slot in range(SLOTS):
            if frame.refreshes >> slot & 1:
                self._slots[slot] = number
        return needs
