"""Find the frames that decoders drop where sequences end or picture sizes change, which only a decode shows."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from videoloader.errors import DecodeError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.bitstream.nal import H264_IDR
from videoloader.indexing.bitstream.parameter_sets import (
    WITH_HEADERS,
    WITH_PARAMETER_SETS,
    Sets,
    is_sequence_set,
    sets_of_record,
)
from videoloader.indexing.bitstream.random_access import LONGEST_TAIL, end_of_sequence, has_unit
from videoloader.indexing.configurations import Brought, config_switches, is_closed, renews_sequences
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import most_looked_at, read_packet
from videoloader.indexing.libav import index_by_decoding
from videoloader.indexing.sources.base import NEAR, ByteSource
from videoloader.indexing.true_order import with_frames, with_sets_met

# A change this many packets after the start comes soon: no decoder holds back as many pictures.
_SOON = 64
_HEAD = 4 << 10
# Types of NAL units.
_IDR = {"h264": (H264_IDR,), "hevc": (19, 20)}


def may_lose_pictures(index: VideoIndex, source: ByteSource, switches: list[int], brought: Brought) -> bool:
    """Whether a decoder may drop pictures at a change.

    Decoders of MPEG-1, 2 and 4 drop the picture that they hold back where pictures of another ``memory_size`` begin.
    Those of H.264 and HEVC begin a new sequence where they get another sequence parameter set, or the same one again.
    If that is not at a keyframe, or if pictures follow that are shown before the keyframe, pictures that refer to
    earlier ones are lost. If it comes soon after a start in the middle of a GOP, they also drop pictures that they hold
    back, whatever begins there.

    Args:
        index: index of any method, with the configurations of in-band parameter sets.
        source: source of the same video.
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
    changes = {*switches, *others}
    if any(not is_closed(index, packet) for packet in changes):
        return True
    if min(changes, default=_SOON) < _SOON and _begins_within_a_gop(index, source):
        return True
    return renews_sequences(index, brought)


def _begins_within_a_gop(index: VideoIndex, source: ByteSource) -> bool:
    """Whether a video of H.264 or HEVC begins with another picture than an IDR picture."""
    if not index.packet_key[0] or not index.byte_ranges:
        return not index.packet_key[0]
    codec = index.stream.codec
    return not has_unit(codec, index.config_at(0), read_packet(index, source, 0, _HEAD), _IDR[codec])


def hides_leading_pictures(index: VideoIndex, source: ByteSource, breaks: Collection[int]) -> bool:
    """Whether an HEVC keyframe inside the video may have leading pictures that a decoder does not show.

    They refer to pictures before the keyframe. Where a sequence ends before it, as where an editor has joined two
    recordings, those belong to something else.

    Args:
        index: index of any method.
        source: source of the same video.
        breaks: keyframes whose own heads say that the sequence before has ended.
    """
    stream = index.stream
    if stream.codec != "hevc" or index.method == "decoded" or not index.byte_ranges or stream.encrypted:
        return False
    # Leading pictures follow their keyframe at once (ITU-T H.265, 7.4.2.2).
    keys, pts = index.packet_key[1:-1].nonzero()[0] + 1, index.packet_pts
    keys = keys[pts[keys + 1] < pts[keys]]
    if not set(breaks).isdisjoint(keys.tolist()):
        return True
    if source.read_through > NEAR and len(keys) > most_looked_at(source):
        return False
    size = np.minimum(index.packet_size[keys - 1], LONGEST_TAIL)
    offset = index.packet_offset[keys - 1] + index.packet_size[keys - 1] - size
    tails = source.read_ranges(offset.tolist(), size.tolist())
    used = index.packet_config[keys - 1].tolist()
    ends = [end_of_sequence(config) for config in index.stream.codec_configs]
    return any(ends[config].search(tail) for config, tail in zip(used, tails, strict=True))


def with_pictures_that_come(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index with the frames that a full decode gives.

    Args:
        index: index of any method.
        source: source of the same video.
    """
    try:
        decoded = index_by_decoding(source, may_be_cut_off=False)
    except DecodeError as error:
        raise_of_handler(error)
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
