"""Find the frames that decoders drop where sequences or picture sizes change, which only a decode shows."""

from __future__ import annotations

import numpy as np

from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.parameter_sets import (
    WITH_HEADERS,
    WITH_PARAMETER_SETS,
    Sets,
    is_sequence_set,
    sets_of_record,
)
from videoloader.indexing.configurations import Brought, config_switches, is_closed, renews_sequences
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.libav import index_by_decoding
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.true_order import with_frames, with_sets_met


def may_lose_pictures(index: VideoIndex, switches: list[int], brought: Brought) -> bool:
    """Whether a decoder may drop pictures at a change.

    Decoders of MPEG-1, 2 and 4 drop the picture that they hold back where pictures of another size begin. Those of
    H.264 and HEVC begin a new sequence where they get another sequence parameter set, or the same one again. If that is
    not at a keyframe, or if pictures follow that are shown before the keyframe, pictures that refer to earlier ones are
    lost.

    Args:
        index: index of any method, with the configurations of in-band parameter sets.
        switches: packets with which the container gives its decoder another record.
        brought: the parameter sets in packets, for those that were examined.
    """
    codec = index.stream.codec
    if index.method == "decoded" or codec not in WITH_HEADERS:
        return False
    if codec not in WITH_PARAMETER_SETS:
        return index.stream.size_varies
    # Packets that bring a sequence parameter set into force that was not in force before.
    others = (each for each in config_switches(index) if _sequence_sets(index, each - 1) != _sequence_sets(index, each))
    if any(not is_closed(index, packet) for packet in {*switches, *others}):
        return True
    return renews_sequences(index, brought)


def with_pictures_that_come(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index with the frames that a full decode gives.

    Args:
        index: index of any method.
        source: source of the same video.
    """
    try:
        decoded = index_by_decoding(source)
    except DecodeError:
        return index  # damaged: keep the frames of the container's tables
    if not np.array_equal(decoded.packet_size, index.packet_size):
        return decoded
    if not np.array_equal(decoded.frame_packet, index.frame_packet):
        index = with_frames(index, decoded.frame_packet, decoded)
    return with_sets_met(index, decoded, np.arange(len(index.packet_size)))


def _sequence_sets(index: VideoIndex, packet: int) -> Sets:
    codec = index.stream.codec
    sets = sets_of_record(codec, index.config_at(packet))
    return {name: unit for name, unit in sets.items() if is_sequence_set(codec, unit[0])}
