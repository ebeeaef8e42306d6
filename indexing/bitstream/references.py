"""Find the packets of a run that the wanted ones need, by the references that codecs' headers name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol

from videoloader.indexing.bitstream.av1_references import Av1References
from videoloader.indexing.bitstream.hevc_references import HevcReferences
from videoloader.indexing.bitstream.vp8_references import Vp8References
from videoloader.indexing.bitstream.vp9_references import Vp9References


class Tracker(Protocol):
    """Follows what a decoder of one codec keeps from packet to packet, and from which packet each part comes.

    Packets are identified by their number in the run.
    """

    def read(self, number: int, payload: bytes | memoryview) -> set[int]:
        """Process the next packet, and return the earlier ones that decoding it needs directly.

        Raises:
            ValueError: the headers do not tell.
        """

    def held(self) -> set[int]:
        """Return the packets that later ones may still need."""

    def needed_anchors(self, needed: Collection[int]) -> set[int]:
        """Return more packets to decode so that the needed ones are identified correctly."""


_TRACKERS: dict[str, Callable[[bytes], Tracker]] = {
    "hevc": HevcReferences,
    "av1": Av1References,
    "vp8": Vp8References,
    "vp9": Vp9References,
}


def names_references(codec: str) -> bool:
    """Whether the codec's headers tell which packets a packet needs."""
    return codec in _TRACKERS


def new_tracker(codec: str, config: bytes) -> Tracker | None:
    """Make a tracker for packets of one configuration record; None if references are unknown.

    That is the case if the codec does not name references, or the record cannot be read.
    """
    with suppress(ValueError):
        return _TRACKERS[codec](config) if codec in _TRACKERS else None
    return None


class ReferenceClosure:
    """Finds the packets that the wanted ones need, directly or not, in the packets of a run from its keyframe on.

    A packet is dropped only if that certainly changes no wanted frame. If one of the packets cannot be read, or refers
    to a packet outside of the run, all of them are kept, and all later ones.

    Args:
        codec: codec that ``names_references``.
        config: configuration record of the run's packets.

    Examples:
        >>> closure = ReferenceClosure("hevc", hvcc)
        >>> closure.needed(hevc_packets[:5], [False, False, False, False, True], more_follow=False)
        [True, True, True, False, True]
    """

    def __init__(self, codec: str, config: bytes) -> None:
        self._count = 0
        self._kept: set[int] = set()
        self._tracker = new_tracker(codec, config)

    def needed(
        self, payloads: Sequence[bytes | memoryview], wanted: Sequence[bool], *, more_follow: bool
    ) -> list[bool]:
        """Return for each of the run's next packets whether it must be decoded.

        Args:
            payloads: payloads of the packets, in decode order.
            wanted: whether the packet's frame is wanted.
            more_follow: whether more packets of the run follow, so that packets to which those may refer must be kept.
        """
        tracker, first = self._tracker, self._count
        self._count = stop = first + len(payloads)
        if tracker is None:
            return [True] * len(payloads)
        needs: list[set[int]] = []
        for number, payload in enumerate(payloads, first):
            try:
                needs.append(tracker.read(number, payload))
            except ValueError:
                self._tracker = None
                return [True] * len(payloads)  # it may also have read a part of the packet
        roots = {number for number, is_wanted in enumerate(wanted, first) if is_wanted or number == 0}
        if more_follow:
            roots |= tracker.held()
        while roots:
            self._keep(roots, needs, first)
            roots = tracker.needed_anchors(self._kept)
        return [number in self._kept for number in range(first, stop)]

    def _keep(self, roots: set[int], needs: list[set[int]], first: int) -> None:
        """Keep packets and everything that they need; packets before this part are already kept."""
        waiting = list(roots)
        while waiting:
            number = waiting.pop()
            if number not in self._kept:
                self._kept.add(number)
                waiting += needs[number - first]
