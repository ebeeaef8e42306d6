"""Place pictures in display order by their packets' headers, until these prove that the index's ranks are right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np

from videoloader.indexing.bitstream.display_order import display_order
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.parameter_sets import WITH_PARAMETER_SETS
from videoloader.indexing.bitstream.picture_counts import SLICE_WINDOW, places_of_packets
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import PacketBytes, Run, packet_bytes
from videoloader.packets.payloads import Payloads, held

UNKNOWN_PLACE = -1
# Largest run, in bytes, that is read completely before its first packet is yielded.
_MOST_AT_ONCE = 16 << 20


def confirm_ranks(index: VideoIndex, run: Run, pieces: Iterable[Payloads]) -> tuple[Iterable[Payloads], bool]:
    """Examine the headers of a run's packets all at once, unless the index's ranks are known to be right.

    The order by headers is compared with the ranks. If they agree, the index remembers it, and a later run that starts
    at the same packet and is not longer need not examine headers again. This takes 0.5 µs for each packet;
    ``with_places`` takes some microseconds.

    Args:
        index: index of the video.
        run: run that the packets belong to.
        pieces: payloads of the run's packets in decode order, from ``read_payloads``.

    Returns:
        the payloads, which may have been read by now, and whether the ranks are right; False where headers do not tell
        at once.
    """
    numbers = run.packets
    # The ranks of an index made by decoding are those of the decode.
    if index.method == "decoded" or index.ranks_seen_right.get(int(numbers[0]), -1) >= numbers[-1]:
        return pieces, True
    codec, configs = index.stream.codec, index.packet_config[numbers]
    size = nal_length_size(codec, index.stream.codec_configs[configs[0]]) if codec in WITH_PARAMETER_SETS else 0
    contiguous = int(numbers[-1] - numbers[0]) + 1 == len(numbers)
    if not size or not contiguous or (configs != configs[0]).any():
        return pieces, False
    if index.packet_size[numbers].sum(dtype=np.int64) > _MOST_AT_ONCE:
        return pieces, False
    pieces = held(pieces)
    return pieces, _ranks_are_right(index, run, pieces, size)


def _ranks_are_right(index: VideoIndex, run: Run, pieces: list[Payloads], length_size: int) -> bool:
    numbers, records = run.packets, index.stream.codec_configs
    stream = index.stream if len(records) == 1 else replace(index.stream, codec_configs=(index.config_at(numbers[0]),))
    width = length_size + SLICE_WINDOW + 2
    joined = b"".join([bytes(payload[:width]).ljust(width, b"\0") for payload in chain.from_iterable(pieces)])
    starts = np.frombuffer(joined, np.uint8).reshape(-1, width).copy()
    payloads = cache(lambda: [*chain.from_iterable(pieces)])
    try:
        order = places_of_packets(stream, starts, lambda number: payloads()[number]).argsort(kind="stable")
    except ValueError:
        return False
    ranks = index.packet_rank[numbers][order]
    right = bool((ranks[1:] > ranks[:-1]).all())
    if right:
        index.ranks_seen_right[int(numbers[0])] = int(numbers[-1])
    return right


def with_places(index: VideoIndex, run: Run, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Add to each packet the place of its picture in display order, by headers, which are examined one by one.

    If they confirm the index's ranks, the index remembers it; see ``confirm_ranks``.
    """
    first, last = int(run.packets[0]), int(run.packets[-1])
    order = display_order(index.stream.codec, index.config_at(first))
    if order is None:
        yield from packets
        return
    places: list[int] = []
    for number, data, wanted, headers, _, guessed in packets:
        place = UNKNOWN_PLACE
        if not places or places[-1] != UNKNOWN_PLACE:
            try:
                place = order.key(data)
            except (ValueError, IndexError):
                place = UNKNOWN_PLACE
        places.append(place)
        yield packet_bytes((number, data, wanted, headers, place, guessed))
    # Only if all packets up to the last were examined, since another run may want those that this one has left out.
    if len(places) == last - first + 1 and places[-1] != UNKNOWN_PLACE:
        in_order = sorted(range(first, last + 1), key=lambda number: places[number - first])
        ranks = index.packet_rank[in_order]
        if (ranks[1:] > ranks[:-1]).all():
            index.ranks_seen_right[first] = last
