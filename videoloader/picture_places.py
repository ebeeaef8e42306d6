"""Where pictures come in display order: by their packets' headers, until an index's ranks are seen to say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from videoloader.indexing.bitstream.display_order import display_order
from videoloader.indexing.index import VideoIndex
from videoloader.planning import Run

UNKNOWN_PLACE = -1

# Of a packet: its number, its payload, whether its frame is wanted, and the place of its picture.
Part: TypeAlias = tuple[int, bytes | memoryview, bool, int | None]


def with_places(index: VideoIndex, run: Run, parts: Iterator[Part]) -> Iterator[Part]:
    """The packets of a run, all of them, each with its place, unless the index's ranks are known to be as good.

    Headers take some microseconds a packet. So what they tell of a run is compared with the ranks, and remembered with
    the index: another run from the same packet on, as far or less far, needs them no more.

    Args:
        index: of the video.
        run: its packets are these.
        parts: of the packets, in decode order.
    """
    # Of an index that was decoded the ranks are those of the decode.
    if index.method == "decoded" or index.ranks_seen_right.get(int(run.packets[0]), -1) >= run.packets[-1]:
        return parts
    return _by_headers(index, run, parts)


def _by_headers(index: VideoIndex, run: Run, parts: Iterator[Part]) -> Iterator[Part]:
    first, last = int(run.packets[0]), int(run.packets[-1])
    order = display_order(index.stream.codec, index.stream.codec_configs[index.packet_config[first]])
    if order is None:
        yield from parts
        return
    places: list[int] = []
    for number, data, wanted, _ in parts:
        place = UNKNOWN_PLACE
        if not places or places[-1] != UNKNOWN_PLACE:
            try:
                place = order.key(data)
            except (ValueError, IndexError):
                place = UNKNOWN_PLACE
        places.append(place)
        yield number, data, wanted, place
    # Of all packets up to the last, since another run may want those that this one has left out.
    if len(places) == last - first + 1 and places[-1] != UNKNOWN_PLACE:
        in_order = sorted(range(first, last + 1), key=lambda number: places[number - first])
        ranks = index.packet_rank[in_order]
        if (ranks[1:] > ranks[:-1]).all():
            index.ranks_seen_right[first] = last
