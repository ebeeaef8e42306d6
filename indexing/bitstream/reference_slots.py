"""Track which packets' frames are in the reference slots that VP8, VP9 and AV1 headers name."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class ReferenceSlots:
    """Base of these codecs' trackers; see ``references.Tracker``. Packets are identified by their number.

    Args:
        count: number of slots.
    """

    def __init__(self, count: int) -> None:
        self._slots = [-1] * count
        self._besides: set[int] = set()  # more packets that later ones may need

    def held(self) -> set[int]:
        """Return the packets that later ones may still need."""
        return {*self._slots, *self._besides} - {-1}

    def needed_anchors(self, needed: Collection[int]) -> set[int]:
        """Return none, since these codecs do not identify frames by counts."""
        return set()

    def _packets_in(self, slots: Iterable[int]) -> set[int]:
        """Return the packets of the frames in some of the slots. ValueError if a slot is empty."""
        packets = {self._slots[slot] for slot in slots}
        if -1 in packets:
            raise ValueError("a reference is missing")
        return packets
