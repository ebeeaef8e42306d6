"""Count the times of MPEG-4 part 2 pictures (VOPs) as libavcodec does (ISO/IEC 14496-2, 6.3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from videoloader.indexing.bitstream.mpeg4_headers import (
    B_VOP,
    GROUP_START,
    VOP,
    Layer,
    Vop,
    find_layer,
    group_seconds,
    read_vop,
)


class Clock:
    """The times of VOPs as libavcodec counts them: it drops B-VOPs that are not between their references."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._seconds = self._seconds_before = 0
        self._reference = self._between = 0

    def advance(self, vop: Vop) -> None:
        """Take a VOP that others refer to."""
        if vop.clock is not None:
            self._seconds = vop.clock
        self._seconds_before = self._seconds
        self._seconds += vop.seconds
        time = self._seconds * self._layer.resolution + vop.increment
        self._between, self._reference = time - self._reference & 0xFFFF, time

    def distance(self, vop: Vop) -> int | None:
        """Return the time units from the earlier reference of a B-VOP to it; None if it is not between the two."""
        time = (self._seconds_before + vop.seconds) * self._layer.resolution + vop.increment
        distance = self._between - (self._reference - time) & 0xFFFF
        return distance if 0 < distance < self._between else None

    def check_between(self, vop: Vop) -> None:
        """Raise ValueError unless a B-VOP is certainly decoded."""
        if vop.clock is not None or self._layer.interlaced or self.distance(vop) is None:
            raise ValueError("a B-VOP is not between its references")


def first_b_distance(config: bytes, packets: Iterable[bytes]) -> int:
    """Return the time units from its earlier reference to a stream's first B-VOP; 0 if nothing depends on it.

    libavcodec scales the motion vectors of all interlaced B-VOPs by the distance of the first one that a decoder is
    given (``t_frame`` in its source).

    Args:
        config: headers before the first VOP, with start codes; empty if the container has none.
        packets: packets in decode order. They are read up to the first B-VOP.
    """
    layer, clock = find_layer(config), None
    for packet in packets:
        layer = find_layer(packet) or layer
        if layer is None:
            continue
        if not layer.interlaced:
            return 0
        clock = clock or Clock(layer)
        for vop in _vops(packet, layer):
            if vop.kind != B_VOP:
                clock.advance(vop)
            elif distance := clock.distance(vop):
                return distance
    return 0


def _vops(packet: bytes, layer: Layer) -> Iterator[Vop]:
    """Yield the VOPs of a packet, except those whose headers are damaged, which decoders refuse, too."""
    start = 0
    while (at := packet.find(VOP, start)) >= 0:
        group = packet.rfind(GROUP_START, start, at)
        time = packet[group + 4 : group + 7] if group >= 0 else b""
        with suppress(ValueError):
            yield read_vop(packet, at, layer, group_seconds(time) if any(time) else None)
        start = at + len(VOP)
