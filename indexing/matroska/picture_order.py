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
    read_ue,
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
# Packets that begin with something else than a slice are read, at most so many, or such a share of all.
_MOST_READ, _MOST_SHARE = 8, 16
_LONG_HEAD = 4 << 10

# By the first byte of a NAL unit, whether it is a slice.
_SLICES = {
    codec: np.array([is_slice(codec, first) and not (codec == "hevc" and first & 1) for first in range(256)], np.bool_)
    for codec in ("h264", "hevc")
}


def comes_in_order(index: VideoIndex, source: ByteSource, packets: Packets) -> bool | None:
    """Whether decoders give out the pictures of H.264 and HEVC in the order of their times; None where it is not told.

    Args:
        index: of the packets.
        source: of the same video.
        packets: with their first bytes.
    """
    codec, record = index.stream.codec, index.stream.codec_configs[0]
    if codec not in ("h264", "hevc") or nal_length_size(codec, record) != _LENGTH_SIZE or index.stream.encrypted:
        return None
    picture = picture_format(index.stream)
    if picture is None or (codec == "h264" and not picture.frames_only):
        return None
    sets = sets_of_record(codec, record)
    heads = _slice_heads(codec, sets, source, packets)
    if heads is None:
        return None
    try:
        places = (_h264_places if codec == "h264" else _hevc_places)(heads, sets)
    except ValueError:
        return None
    in_order = places[index.frame_packet]
    rises = bool((in_order[1:] > in_order[:-1]).all())
    return rises and index.stream.reorder_depth <= deepest_reordering(index.stream)


def _slice_heads(codec: str, sets: Sets, source: ByteSource, packets: Packets) -> Bytes | None:
    """uint8[P, 12]: the first bytes of the first slice of each packet; None where that would take long to find."""
    words = np.empty((len(packets.head), 2), ">i8")
    words[:, 0], words[:, 1] = packets.head, packets.more
    heads = words.view(np.uint8).reshape(-1, FRAME_HEAD)[:, _LENGTH_SIZE:]
    others = (~_SLICES[codec][heads[:, 0]]).nonzero()[0].tolist()
    if len(others) > max(_MOST_READ, len(heads) // _MOST_SHARE):
        return None
    for number in others:
        data = source.read(int(packets.offset[number]), min(int(packets.size[number]), _LONG_HEAD))
        for start, stop in iterate_nals(data, _LENGTH_SIZE):
            if is_slice(codec, data[start]):
                heads[number] = np.frombuffer(data[start:stop][: heads.shape[1]].ljust(heads.shape[1], b"\0"), np.uint8)
                break
            if is_set(codec, data[start]) and not named_sets(codec, [data[start:stop]]).items() <= sets.items():
                return None
        else:
            return None
    return heads


def _h264_places(heads: Bytes, sets: Sets) -> Numbers:
    bits = slice_bits(heads[:, 1 : 1 + SLICE_WINDOW].copy())
    for _ in range(3):  # first_mb_in_slice, slice_type and pic_parameter_set_id
        _, bits = read_ue(bits)
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
