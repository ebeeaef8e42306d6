"""Check that decoding can start at a run's first packet, and leave out the pictures shown before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from videoloader.indexing.bitstream.display_order import display_order
from videoloader.indexing.bitstream.mpeg4_headers import LARGEST_UNCODED, VOP, is_packed
from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.bitstream.picture_kinds import BIDIRECTIONAL, picture_kind
from videoloader.indexing.bitstream.random_access import has_idr, is_leading, is_random_access, is_skipped_leading
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import PacketBytes

_NAMED_LEADING, _WITH_LEADING = ("hevc", "vvc"), ("h264", "mpeg1video", "mpeg2video", "mpeg4")


Correction = Callable[[VideoIndex], VideoIndex]


class WrongIndexError(Exception):
    """A read shows that the index is wrong. Everything planned with it must be planned again.

    Args:
        index: the index.
        correct: function that corrects this index, or another index of the video that other threads may have corrected
            meanwhile. It returns an index that already has the correction unchanged.

    Attributes:
        index: the corrected index.
        correct: as given.
    """

    def __init__(self, index: VideoIndex, correct: Correction) -> None:
        self.index, self.correct = correct(index), correct


def from_keyframe(index: VideoIndex, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Yield the packets of a run that starts at a keyframe, without those shown before it, which need earlier packets.

    Raises:
        WrongIndexError: the first packet is no keyframe, or a wanted picture needs packets before it.
    """
    codec = index.stream.codec
    first = next(packets)
    config = index.config_at(first.number)
    if index.keys_from == "container" and is_random_access(codec, config, first.data) is False:
        raise WrongIndexError(index, partial(without_keyframe, packet=first.number))
    if index.method != "decoded":
        if codec in _NAMED_LEADING:
            packets = _without_named_leading(index, config, first, packets)
        elif codec in _WITH_LEADING and not (codec == "h264" and has_idr(config, first.data)):
            packets = _without_leading(index, config, first, packets)
    elif codec == "mpeg4" and first.number and is_packed(config):
        return _without_packed(first, packets)
    return chain((first,), packets)


def _without_named_leading(
    index: VideoIndex, config: bytes, first: PacketBytes, packets: Iterator[PacketBytes]
) -> Iterator[PacketBytes]:
    """Leave out the leading pictures of HEVC and VVC, whose headers name them and which precede all others."""
    codec = index.stream.codec
    needs_earlier: list[int] = []
    for packet in packets:
        if is_skipped_leading(codec, config, packet.data):
            if packet.wanted and first.number:
                needs_earlier.append(packet.number)
            continue
        if not needs_earlier:
            yield packet
        if not is_leading(codec, config, packet.data):
            break
    _start_earlier(index, first.number, needs_earlier)
    yield from packets


def _without_leading(
    index: VideoIndex, config: bytes, first: PacketBytes, packets: Iterator[PacketBytes]
) -> Iterator[PacketBytes]:
    """Leave out leading pictures of other codecs, by the order in their headers, or else by the container's times."""
    order = display_order(index.stream.codec, config)
    assert order is not None, "of these codecs it can be read"
    try:
        own = order.key(first.data)
    except ValueError:
        own = None
    needs_earlier: list[int] = []
    for packet in islice(packets, MOST_HELD):
        try:
            leading = own is not None and order.key(packet.data) < own
        except ValueError:
            own = None
        if own is None:
            leading = bool(index.packet_pts[packet.number] < index.packet_pts[first.number])
        if leading and packet.wanted and first.number:
            needs_earlier.append(packet.number)
        if needs_earlier:
            continue
        # Pictures shown after an H.264 recovery point refer to nothing before it (D.2.8).
        if not leading or packet.wanted or index.stream.codec != "h264":
            yield packet
    _start_earlier(index, first.number, needs_earlier)
    yield from packets


def _without_packed(first: PacketBytes, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Leave out B pictures of MPEG-4 that are shown before the keyframe which one of them shares a packet with.

    DivX and Xvid put the first in the packet of the keyframe, each of the others into its own, and a placeholder behind
    the last. A decoder takes each from the packet before, and nothing from the placeholder. One that begins here skips
    the first, loses the second with its packet, and so takes the placeholder for a picture. It then scales motion
    vectors of later B pictures by the time of that.
    """
    data = bytes(first.data)
    second = data.find(VOP, data.find(VOP) + len(VOP))
    behind: list[PacketBytes] = []
    for packet in islice(packets, MOST_HELD if second > 0 else 0):
        behind.append(packet)
        if len(packet.data) <= LARGEST_UNCODED:
            if not any(each.wanted for each in behind):
                return chain((first._replace(data=data[:second]),), packets)
            break
        if picture_kind("mpeg4", bytes(packet.data)) != BIDIRECTIONAL:
            break
    return chain((first, *behind), packets)


def _start_earlier(index: VideoIndex, keyframe: int, packets: Sequence[int]) -> None:
    """Raise WrongIndexError so that decoding for packets, if there are any, starts before this keyframe."""
    if packets:
        start = index.keyframe_before(keyframe)
        starts = tuple((packet, start) for packet in packets)
        raise WrongIndexError(index, partial(_with_other_starts, starts=starts))


def without_keyframe(index: VideoIndex, packet: int) -> VideoIndex:
    """Return the index without this keyframe, or the same index if there is none."""
    return index.without_keyframe(packet) if index.packet_key[packet] else index


def _with_other_starts(index: VideoIndex, starts: tuple[tuple[int, int], ...]) -> VideoIndex:
    new = tuple(each for each in starts if each not in index.other_starts)
    return replace(index, other_starts=index.other_starts + new) if new else index
