"""Slots of reference frames, which the headers of VP8, VP9 and AV1 name, and whose frames these are."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class ReferenceSlots:
    """The common part of these codecs' trackers; see ``references.Tracker``. Packets are known by their number.

    Args:
        count: number of slots.
    """

    def __init__(self, count: int) -> None:
        self._slots = [-1] * count
        self._besides: set[int] = set()  # packets that later ones may need as well

    def held(self) -> set[int]:
        """The packets that later ones may still need."""
        return {*self._slots, *self._besides} - {-1}

    def needed_anchors(self, needed: Collection[int]) -> set[int]:
        """None: frames are told apart by their packets alone."""
        return set()

    def _packets_in(self, slots: Iterable[int]) -> set[int]:
        """The packets of the frames in some of the slots. ValueError where a slot is empty."""
        packets = {self._slots[slot] for slot in slots}
        if -1 in packets:
            raise ValueError("a reference is missing")
        return packets
