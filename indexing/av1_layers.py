"""Detect AV1 streams of which decoders leave out packets, so that packets do not say which frames they become.

A stream in layers lists operating points, each with some of the layers, and decoders choose the first one (AV1
specification, 7.3.2). Containers have a sample for each packet of every layer.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from videoloader.indexing.bitstream.av1 import first_sequence, iterate_obus, units_of_record
from videoloader.indexing.bitstream.av1_references import WITH_FRAME_HEADER, is_decoded
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframes import packet_payloads
from videoloader.indexing.sources.base import ByteSource

# Packets among which each layer has one.
_FIRST = 64


def has_left_out_layers(index: VideoIndex, source: ByteSource) -> bool:
    """Whether the first operating point lacks layers of another one, or of one of the first packets.

    Streams without layers, as most are, cost no read.

    Args:
        index: index of a container's tables.
        source: source of the same video.

    Raises:
        SourceError: the source cannot be read.
    """
    if index.stream.codec != "av1":
        return False
    found = (first_sequence(units_of_record(config)) for config in index.stream.codec_configs)
    layered = [sequence for sequence in found if sequence and sequence.layers[0]]
    if any(point & ~sequence.layers[0] for sequence in layered for point in sequence.layers):
        return True
    if not layered:
        return False
    for payload in islice(packet_payloads(index, source), _FIRST):
        with suppress(ValueError):  # the packet is damaged, which decoding tells
            units = [obu for obu in iterate_obus(payload) if obu.kind in WITH_FRAME_HEADER]
            if units and not any(is_decoded(obu, layered[0]) for obu in units):
                return True
    return False
