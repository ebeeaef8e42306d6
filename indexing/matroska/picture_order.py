"""Whether the times of a Matroska file order its pictures as their own headers do, asked of all pictures at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.parameter_sets import Sets, is_set, is_slice, named_sets, sets_of_record
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.bitstream.picture_counts import (
    SLICE_WINDOW,
    h264_numbers,
    h264_places,
    hevc_kinds,
    hevc_picture_numbers,
    hevc_places,
    hevc_sequence_numbers,
    places_by_kind,
    skip_h264_head,
    skip_hevc_head,
    slice_bits,
)
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.matroska.blocks import Packets
from videoloader.indexing.matroska.dense_blocks import FRAME_HEAD
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.wrong_times import deepest_reordering

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_LENGTH_SIZE = 4  # bytes before each NAL unit, in all files but rare ones
_IDR, _REFERENCE, _UNIT_TYPE = 5, 0x60, 31  # of the first byte of H.264's NAL units
_H264_SPS, _HEVC_SPS, _HEVC_PPS = 7, 33, 34
# The start code of a picture, last bytes of those of headers, and where in the first eight bytes of a picture its kind
# stands: how far from their end, which bits, and their value for B pictures.
_MPEG12 = (0x100, (0xB3, 0xB8), 19, 7, 3)
_KINDS = {
    "mpeg1video": _MPEG12,
    "mpeg2video": _MPEG12,
    "mpeg4": (0x1B6, (*range(0x30), 0xB0, 0xB2, 0xB3, 0xB5), 30, 3, 2),
}
# Packets that begin with something else than a slice are read, at most so many, or such a share of all.
_MOST_READ, _MOST_SHARE = 8, 16
_LONG_HEAD = 4 << 10

# By the first byte of a NAL unit, whether it is a slice.
_SLICES = {
    codec: np.array([is_slice(codec, first) and not (codec == "hevc" and first & 1) for first in range(256)], np.bool_)
    for codec in ("h264", "hevc")
}


def comes_in_order(index: VideoIndex, source: ByteSource, packets: Packets) -> bool | None:
    """Whether decoders give out the pictures in the order of their times; None where their headers do not tell.

    Args:
        index: of the packets.
        source: of the same video.
        packets: with their first bytes.
    """
    if index.stream.encrypted:
        return None
    try:
        places = (_places_by_kind if index.stream.codec in _KINDS else _places_by_count)(index, source, packets)
    except ValueError:
        return None
    in_order = places[index.frame_packet]
    rises = bool((in_order[1:] > in_order[:-1]).all())
    return rises and index.stream.reorder_depth <= deepest_reordering(index.stream)


def _places_by_kind(index: VideoIndex, source: ByteSource, packets: Packets) -> Numbers:
    """Of MPEG-1, 2 and 4: packets that do not begin with their picture begin with headers, which no B picture has.

    Raises:
        ValueError: a packet begins with something else.
    """
    picture, headers, at, mask, b_picture = _KINDS[index.stream.codec]
    code = packets.head >> 32 & 0xFFFFFFFF
    if ((code != picture) & ~np.isin(code & 0xFF, headers) | (code >> 8 != 1)).any():
        raise ValueError("packets that begin with no header")
    return places_by_kind((code != picture) | (packets.head >> at & mask != b_picture))


def _places_by_count(index: VideoIndex, source: ByteSource, packets: Packets) -> Numbers:
    """Of H.264 and HEVC.

    Raises:
        ValueError: it is another codec, or its packets are of a rarer kind.
    """
    codec, record = index.stream.codec, index.stream.codec_configs[0]
    if codec not in _SLICES or nal_length_size(codec, record) != _LENGTH_SIZE:
        raise ValueError("no packets of NAL units")
    picture = picture_format(index.stream)
    if picture is None or (codec == "h264" and not picture.frames_only):
        raise ValueError("fields, perhaps")
    sets = sets_of_record(codec, record)
    return (_h264_places if codec == "h264" else _hevc_places)(_slice_heads(codec, sets, source, packets), sets)


def _slice_heads(codec: str, sets: Sets, source: ByteSource, packets: Packets) -> Bytes:
    """uint8[P, 12]: the first bytes of each packet's first slice. ValueError where they would take long to find."""
    words = np.empty((len(packets.head), 2), ">i8")
    words[:, 0], words[:, 1] = packets.head, packets.more
    heads = words.view(np.uint8).reshape(-1, FRAME_HEAD)[:, _LENGTH_SIZE:]
    others = (~_SLICES[codec][heads[:, 0]]).nonzero()[0].tolist()
    if len(others) > max(_MOST_READ, len(heads) // _MOST_SHARE):
        raise ValueError("too many packets begin with other units")
    for number in others:
        data = source.read(int(packets.offset[number]), min(int(packets.size[number]), _LONG_HEAD))
        for start, stop in iterate_nals(data, _LENGTH_SIZE):
            if is_slice(codec, data[start]):
                heads[number] = np.frombuffer(data[start:stop][: heads.shape[1]].ljust(heads.shape[1], b"\0"), np.uint8)
                break
            if is_set(codec, data[start]) and not named_sets(codec, [data[start:stop]]).items() <= sets.items():
                raise ValueError("parameter sets that change")
        else:
            raise ValueError("a packet without a slice")
    return heads


def _h264_places(heads: Bytes, sets: Sets) -> Numbers:
    bits = skip_h264_head(slice_bits(heads[:, 1 : 1 + SLICE_WINDOW].copy()))
    first = heads[:, 0]
    return h264_places(bits, first & _UNIT_TYPE == _IDR, first & _REFERENCE != 0, _told(sets, _H264_SPS, h264_numbers))


def _hevc_places(heads: Bytes, sets: Sets) -> Numbers:
    if (heads[:, 1] >> 3).any():
        raise ValueError("pictures of several layers")
    is_irap, is_idr, _, anchor = hevc_kinds(heads[:, 0] >> 1 & 63, heads[:, 1])
    bits = skip_hevc_head(slice_bits(heads[:, 2 : 2 + SLICE_WINDOW].copy()), is_irap)
    of_picture = _told(sets, _HEVC_PPS, hevc_picture_numbers)
    return hevc_places(bits, is_idr, anchor, _told(sets, _HEVC_SPS, hevc_sequence_numbers), of_picture)


def _told(sets: Sets, kind: int, read: Callable[[bytes], tuple[int, tuple[int, ...]]]) -> tuple[Numbers, ...]:
    """What all parameter sets of a kind tell. ValueError where there is none, or where they differ."""
    told = {read(unit)[1] for (its_kind, _), unit in sets.items() if its_kind == kind}
    if len(told) != 1:
        raise ValueError("no parameter sets that tell at a glance")
    return tuple(np.array(each, np.int64) for each in told.pop())
