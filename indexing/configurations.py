"""Work out the decoder configuration in force at each packet, from the container's records and in-band sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.bitstream.parameter_sets import (
    WITH_HEADERS,
    WITH_PARAMETER_SETS,
    Sets,
    is_sequence_set,
    merged_sets,
    named_sets,
    record_with_sets,
    sets_of_record,
)
from videoloader.indexing.index import MOST_CONFIGURATIONS, VideoIndex

# For some packets, the parameter sets in each.
Brought = Mapping[int, Iterable[bytes]]


def with_configurations(index: VideoIndex, brought: Brought, since: int | None = None) -> VideoIndex:
    """Return the index in which each packet's configuration is the one in force when decoding starts there.

    Sets stay in force until others of their kind and number come, as in decoders, even if the container's record
    changes. A set in a packet takes effect from that packet on. A record that the container gives again gets a number
    of its own, even if nothing is known to have come in between: sets that are found later in packets before it end
    there.

    Args:
        index: index whose packets have the numbers of the container's records; with ``since``, one that was made here.
        brought: parameter sets in packets (``units_of``), for all packets or for those examined. For MPEG-1, 2 and 4
            what keyframes lack (``HeadersBefore``).
        since: the packet from which on the index is to be corrected, because its sets were not known.
    """
    codec, records = index.stream.codec, index.stream.codec_configs
    if codec not in WITH_HEADERS or (not brought and len(records) == 1):
        return index
    first = since or 0
    switched = {packet for packet in config_switches(index) if packet > first}
    distinct = set(map(tuple, brought.values()))  # most keyframes contain the same sets
    if since is None and not switched and all(_are_known(codec, records[0], each) for each in distinct):
        return index
    configs: list[bytes] = [] if since is None else [*records]
    palettes = dict(zip(records, index.stream.palettes, strict=False))
    column, key = index.packet_config.copy(), index.packet_key.copy()
    number = int(column[first]) if configs else MOST_CONFIGURATIONS
    record = config = records[column[first]]
    sets = sets_of_record(codec, record)
    events = sorted({first, *switched, *brought})
    for packet, following in zip(events, [*events[1:], len(column)], strict=True):
        before, record = record, records[index.packet_config[packet]]
        anew = packet in switched and (since is None or record == before)
        if packet in switched:
            # The container gives its record again, perhaps the same one: other sets may have come in between.
            known = {} if anew else sets_of_record(codec, before)
            changed = {name: unit for name, unit in sets_of_record(codec, record).items() if known.get(name) != unit}
            sets = merged_sets(sets, changed)
        sets = merged_sets(sets, named_sets(codec, brought.get(packet, ())))
        earlier, config = config, _record_of(codec, record, sets)
        if config != earlier or anew or not configs:
            alike = (other for other, each in enumerate(configs) if each == config and other != number)
            number = next(alike, len(configs))
            if number == len(configs) < MOST_CONFIGURATIONS:
                configs.append(config)
                palettes.setdefault(config, palettes.get(record, b""))
        if number < MOST_CONFIGURATIONS:
            column[packet:following] = number
        else:
            # There are more configurations than the column can number. Decoding starts before these packets, and finds
            # the sets in order.
            key[packet:following] = False
    kept = tuple(palettes.get(config, b"") for config in configs)
    stream = replace(index.stream, codec_configs=tuple(configs), palettes=kept if any(kept) else ())
    return replace(index, packet_config=column, packet_key=key, stream=stream)


def config_switches(index: VideoIndex) -> list[int]:
    """Return the packets at which another configuration record comes into force."""
    if len(index.stream.codec_configs) == 1:
        return []
    return [packet + 1 for packet in np.flatnonzero(np.diff(index.packet_config)).tolist()]


def brings_others(index: VideoIndex, packet: int, units: Iterable[bytes]) -> bool:
    """Whether a packet of H.264 or HEVC has sets that are not in force there according to the index."""
    codec = index.stream.codec
    return not _are_known(codec, index.config_at(packet), units)


def renews_sequences(index: VideoIndex, brought: Brought) -> bool:
    """Whether a packet inside a sequence contains two sequence parameter sets with the same number.

    If so, a decoder of H.264 or HEVC begins a new sequence there, whichever of them was in force before.

    Args:
        index: index of the video.
        brought: parameter sets in packets.
    """
    codec = index.stream.codec
    if codec not in WITH_PARAMETER_SETS:
        return False
    for packet, units in brought.items():
        sequences = {unit.rstrip(b"\0") for unit in units if unit and is_sequence_set(codec, unit[0])}
        if len(sequences) < 2 or is_closed(index, packet):
            continue
        # In libavcodec, sets of all layers of HEVC share their numbers.
        numbered = (b"\x42\1" + unit[2:] for unit in sequences) if codec == "hevc" else sequences
        if len(named_sets(codec, numbered)) < len(sequences):
            return True
    return False


def is_closed(index: VideoIndex, packet: int) -> bool:
    """Whether a packet is a keyframe, and no packet after it needs what comes before."""
    return bool(index.packet_key[packet]) and not index.needs_earlier(slice(packet, packet + MOST_HELD), packet).any()


def decoded_otherwise(before: VideoIndex, after: VideoIndex, packets: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return whether the pictures of packets may differ, now that more is known of their GOPs' configurations.

    Args:
        before: an index.
        after: the same index, or the same with corrections.
        packets: numbers of packets.
    """
    if before is after:
        return np.zeros(len(packets), np.bool_)
    records = before.stream.codec_configs + after.stream.codec_configs
    one, other = np.split(np.array([records.index(record) for record in records]), [len(before.stream.codec_configs)])
    changes = np.append(0, np.cumsum(one[before.packet_config] != other[after.packet_config]))
    found: npt.NDArray[np.bool_] = changes[packets + 1] > changes[after.packet_start[packets]]
    return found


def _are_known(codec: str, record: bytes, units: Iterable[bytes]) -> bool:
    known = sets_of_record(codec, record)
    return all(known.get(name) == unit for name, unit in named_sets(codec, units).items())


def _record_of(codec: str, record: bytes, sets: Sets) -> bytes:
    if sets_of_record(codec, record) == sets:
        return record
    try:
        return record_with_sets(codec, record, sets)
    except ValueError:
        # The packets contain what a record cannot hold. If it were missing, decoders would refuse them with an error.
        return record
