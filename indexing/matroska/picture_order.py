"""Check the order of a Matroska file's times against its pictures' own headers, for all pictures at once."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.display_order import display_order
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.parameter_sets import WITH_PARAMETER_SETS, is_set, units_of
from videoloader.indexing.bitstream.picture_counts import places_by_kind, places_of_packets, without_slice
from videoloader.indexing.configurations import with_configurations
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import most_looked_at
from videoloader.indexing.matroska.blocks import Packets
from videoloader.indexing.matroska.dense_blocks import FRAME_HEAD
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.wrong_times import deepest_reordering

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_WORD, _LENGTH_SIZE = 8, 4  # bytes in ``Packets.head``; bytes before each NAL unit, in all but rare files
# The start code of a picture; the last bytes of headers' start codes; and how to find the kind of a picture in its
# first eight bytes: shift, mask, and value for B pictures.
_MPEG12 = (0x100, (0xB3, 0xB8), 19, 7, 3)
_KINDS = {
    "mpeg1video": _MPEG12,
    "mpeg2video": _MPEG12,
    "mpeg4": (0x1B6, (*range(0x30), 0xB0, 0xB2, 0xB3, 0xB5), 30, 3, 2),
}
# If packets begin with something other than a slice, at most this many are read, or this share of all.
_MOST_READ, _MOST_SHARE = 8, 16
_LONG_HEAD = 4 << 10


def comes_in_order(index: VideoIndex, source: ByteSource, packets: Packets, *, at_once: bool = True) -> bool | None:
    """Whether decoders output the pictures in the order of their times; None if their headers do not tell.

    Args:
        index: index of the packets.
        source: source of the same video.
        packets: packets with their first bytes.
        at_once: whether to read all headers at once, which requires that parameter sets stay the same; otherwise one
            after the other.
    """
    if index.stream.encrypted:
        return None
    at_a_glance = _places_by_kind if index.stream.codec in _KINDS else _places_by_count
    try:
        places = (at_a_glance if at_once else _places_one_by_one)(index, source, packets)
    except (ValueError, IndexError):
        return None
    in_order = places[index.frame_packet]
    rises = not np.count_nonzero(in_order[1:] <= in_order[:-1])
    return rises and index.stream.reorder_depth <= deepest_reordering(index.stream)


def with_sets_told(index: VideoIndex, source: ByteSource, packets: Packets) -> VideoIndex:
    """Return the index with the parameter sets that packets begin with, keyframes or not, in all but rare files.

    Args:
        index, source, packets: as in ``comes_in_order``.
    """
    codec, record = index.stream.codec, index.stream.codec_configs[0]
    if codec not in WITH_PARAMETER_SETS or nal_length_size(codec, record) != _LENGTH_SIZE:
        return index
    first = packets.head >> 8 * (_WORD - 1 - _LENGTH_SIZE) & 0xFF
    with_sets = [packet for packet, unit in enumerate(first.tolist()) if is_set(codec, unit)]
    brought = {packet: units_of(codec, record, _head(source, packets, packet)) for packet in with_sets}
    return with_configurations(index, brought)


def _head(source: ByteSource, packets: Packets, number: int) -> bytes:
    return source.read(int(packets.offset[number]), min(int(packets.size[number]), _LONG_HEAD))


def _places_by_kind(index: VideoIndex, source: ByteSource, packets: Packets) -> Numbers:
    """Place pictures of MPEG-1, 2 and 4: packets that do not begin with a picture have headers, so are no B pictures.

    Raises:
        ValueError: a packet begins with something else.
    """
    picture, headers, at, mask, b_picture = _KINDS[index.stream.codec]
    code = packets.head >> 32 & 0xFFFFFFFF
    if ((code != picture) & ~np.isin(code & 0xFF, headers) | (code >> 8 != 1)).any():
        raise ValueError("packets that begin with no header")
    return places_by_kind((code != picture) | (packets.head >> at & mask != b_picture))


def _places_by_count(index: VideoIndex, source: ByteSource, packets: Packets) -> Numbers:
    """Place pictures of H.264 and HEVC by their order counts.

    Raises:
        ValueError: it is another codec, or its packets are of a rarer kind.
    """
    starts, _ = _starts(index, packets, _MOST_READ)
    return places_of_packets(index.stream, starts, partial(_head, source, packets))


def _places_one_by_one(index: VideoIndex, source: ByteSource, packets: Packets) -> Numbers:
    """Do the same if parameter sets change on the way, pictures are fields, or packets begin with messages."""
    starts, others = _starts(index, packets, most_looked_at(source))
    order = display_order(index.stream.codec, index.stream.codec_configs[0])
    assert order is not None
    heads: list[bytes] = [*map(bytes, starts)]
    for number in others:
        heads[number] = _head(source, packets, number)
    return np.array([order.key(head) for head in heads], np.int64)


def _starts(index: VideoIndex, packets: Packets, most: int) -> tuple[Bytes, list[int]]:
    """Return the first bytes of all packets as rows, and those (at most ``most``) that do not begin with a slice.

    Raises:
        ValueError: the packets have no NAL units, or too many begin with something else.
    """
    codec = index.stream.codec
    if codec not in WITH_PARAMETER_SETS or nal_length_size(codec, index.stream.codec_configs[0]) != _LENGTH_SIZE:
        raise ValueError("no packets of NAL units")
    words = np.empty((len(packets.head), 2), ">i8")
    words[:, 0], words[:, 1] = packets.head, packets.more
    starts = words.view(np.uint8).reshape(-1, FRAME_HEAD)
    others = without_slice(codec, starts[:, _LENGTH_SIZE:])
    if len(others) > max(most, len(starts) // _MOST_SHARE):
        raise ValueError("too many packets begin with other units")
    return starts, others
