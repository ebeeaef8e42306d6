"""Detect H.264 files with one field in each packet, in which two packets make one frame.

Containers keep a frame in one packet, but a stream that is copied from a transport stream field by field is not joined.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from videoloader.indexing.bitstream.h264_fields import FIELD_HEAD, FieldReader
from videoloader.indexing.bitstream.nal import parameter_sets
from videoloader.indexing.bitstream.parameter_sets import is_sequence_set
from videoloader.indexing.bitstream.picture import parameter_set_format
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import most_looked_at
from videoloader.indexing.sources.base import NEAR, ByteSource, read_starts

# Packets whose first bytes are read at once.
_AT_ONCE = 1 << 12


def has_lone_fields(index: VideoIndex, source: ByteSource) -> bool:
    """Whether a packet of H.264 contains one field only, so that packets do not say which frames they become.

    Streams of frames only, as most are, cost no read. Of others, the heads of all packets are read if the source is
    near. Of remote ones, a few of the first packets and keyframes are.

    Args:
        index: index of a container's tables.
        source: source of the same video.

    Raises:
        SourceError: the source cannot be read.
    """
    stream = index.stream
    if stream.codec != "h264" or stream.encrypted or not index.byte_ranges:
        return False
    if not any(_may_have_fields(config) for config in stream.codec_configs):
        return False
    packets = np.arange(len(index.packet_size))
    if source.read_through > NEAR:
        most = most_looked_at(source)
        packets = np.union1d(packets[:most], index.packet_key.nonzero()[0][:most])
    readers: dict[int, FieldReader] = {}
    for first in range(0, len(packets), _AT_ONCE):
        some = packets[first : first + _AT_ONCE]
        columns = (index.packet_config[some], index.packet_offset[some], index.packet_size[some])
        config_of, offsets, sizes = (column.tolist() for column in columns)
        starts = read_starts(source, offsets, sizes, FIELD_HEAD)
        for config, offset, size, start in zip(config_of, offsets, sizes, starts, strict=True):
            if config not in readers:
                readers[config] = FieldReader(stream.codec_configs[config])

            def read(position: int, most: int, offset: int = offset, size: int = size) -> bytes:
                return source.read(offset + position, min(most, size - position))

            if readers[config].is_lone_field(start, size, read):
                return True
    return False


@lru_cache(256)
def _may_have_fields(record: bytes) -> bool:
    """Whether a sequence parameter set of a record permits pictures that are fields."""
    sets = [unit for unit in parameter_sets("h264", record) if unit and is_sequence_set("h264", unit[0])]
    return any(picture and not picture.frames_only for picture in (parameter_set_format("h264", sps) for sps in sets))
