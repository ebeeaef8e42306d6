"""Find the packets that a VP9 frame needs: it names three, and usually also builds on the frame before it."""

from __future__ import annotations

from videoloader.indexing.bitstream.reference_slots import ReferenceSlots
from videoloader.indexing.bitstream.vp9 import LONGEST_HEAD, SLOTS, FrameHeader, read_frame_header, split_superframe
from videoloader.indexing.bitstream.vpx import hides_frame


class Vp9References(ReferenceSlots):
    """Follows the reference slots through a run of packets. See ``references.Tracker``.

    A frame that is not error resilient takes more from earlier frames than its references: probabilities, motion
    vectors, segments, filter strengths. Which earlier frames these come from depends on fields deep in the headers, and
    decoders differ in it, so such a frame counts as needing all of them.
    """

    def __init__(self, config: bytes) -> None:
        del config  # vpcC says nothing about references
        super().__init__(SLOTS)

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Process the next packet and return the packets that it needs. ValueError if the headers do not tell."""
        needs: set[int] = set()
        frames = split_superframe(payload)
        if not frames:
            raise ValueError("no frame in the packet")
        if len(frames) > 1 and sum(not hides_frame("vp9", payload[start], 0) for start, _ in frames) > 1:
            raise ValueError("several pictures in the packet")
        for start, stop in frames:
            needs |= self._read_frame(
                number, read_frame_header(bytes(payload[start : min(stop, start + LONGEST_HEAD)]))
            )
        return needs - {number}

    def _read_frame(self, number: int, frame: FrameHeader) -> set[int]:
        needs = self._packets_in(frame.reads if frame.shown is None else [frame.shown])
        # A frame that is not error resilient also needs all frames from the last such frame on.
        if frame.is_key:
            self._besides = {number}
        elif frame.resilient or frame.shown is not None:
            self._besides = self._besides | {number}
        else:
            if not self._besides:
                raise ValueError("no key frame to begin with")
            needs |= self._besides
            self._besides = {number}
        for slot in range(SLOTS):
            if frame.refreshes >> slot & 1:
                self._slots[slot] = number
        return needs
