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

# Stands for the distance in streams whose B-VOPs lie at uneven times. Distances have 16 bits.
UNEVEN = 1 << 16


class Clock:
    """The times of VOPs as libavcodec counts them: it drops B-VOPs that are not between their references.

    Attributes:
        layer: the layer in force, which may change.
        time: time of the last reference in units of its layer, as far as the clock knows the seconds.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self._seconds = self._seconds_before = 0
        self.time = self._between = 0

    def advance(self, vop: Vop) -> None:
        """Take a VOP that others refer to."""
        if vop.clock is not None:
            self._seconds = vop.clock
        self._seconds_before = self._seconds
        self._seconds += vop.seconds
        time = self._seconds * self.layer.resolution + vop.increment
        self._between, self.time = time - self.time & 0xFFFF, time

    def distance(self, vop: Vop) -> int | None:
        """Return the time units from the earlier reference of a B-VOP to it; None if it is not between the two."""
        time = (self._seconds_before + vop.seconds) * self.layer.resolution + vop.increment
        distance = self._between - (self.time - time) & 0xFFFF
        return distance if 0 < distance < self._between else None

    def check_between(self, vop: Vop) -> None:
        """Raise ValueError unless a B-VOP is certainly decoded."""
        if vop.clock is not None or self.layer.interlaced or self.distance(vop) is None:
            raise ValueError("a B-VOP is not between its references")


def first_b_distance(config: bytes, packets: Iterable[bytes]) -> int:
    """Return the time units from its earlier reference to a stream's first interlaced B-VOP.

    libavcodec scales the motion vectors of interlaced B-VOPs by times that it divides by the distance of the first
    B-VOP that it is given after a layer's header (``t_frame`` in its source), and rounds. Where this gives zero, it
    drops the B-VOP. A decoder that begins at a keyframe knows neither the distances of B-VOPs that refer to a picture
    before it, nor the seconds, unless there is a group's header. If all times are multiples of the distance, and all
    B-VOPs that come first after a reference have this distance, it need not know them.

    Args:
        config: headers before the first VOP, with start codes; empty if the container has none.
        packets: packets in decode order.

    Returns:
        The distance; 0 if there is no such B-VOP; ``UNEVEN`` if it does not tell all that a decoder must know.
    """
    layer, clock = find_layer(config), None
    first, is_even, follows_reference = 0, True, False
    distances, times = set[int](), set[tuple[Layer, int]]()
    for packet in packets:
        layer = find_layer(packet) or layer
        if layer is None:
            continue
        clock = clock or Clock(layer)
        clock.layer = layer
        for vop in _vops(packet, layer):
            if vop.kind != B_VOP:
                clock.advance(vop)
                follows_reference = True
                if layer.interlaced:
                    times.add((layer, clock.time))
            elif layer.interlaced and (distance := clock.distance(vop)):
                first = first or distance
                distances.add(distance)
                is_even &= distance == first or not follows_reference
                follows_reference = False
    if not first:
        return 0
    phases = {(layer, time % first) for layer, time in times}
    is_even &= len(phases) == len({layer for layer, _ in times})
    return first if is_even and not any(each % first for each in distances) else UNEVEN


def _vops(packet: bytes, layer: Layer) -> Iterator[Vop]:
    """Yield the VOPs of a packet, except those whose headers are damaged, which decoders refuse, too."""
    start = 0
    while (at := packet.find(VOP, start)) >= 0:
        group = packet.rfind(GROUP_START, start, at)
        time = packet[group + 4 : group + 7] if group >= 0 else b""
        with suppress(ValueError):
            yield read_vop(packet, at, layer, group_seconds(time) if any(time) else None)
        start = at + len(VOP)
