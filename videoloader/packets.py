"""From a run of packet numbers to the packets' bytes: few reads, and only what a decoder needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from videoloader.errors import SourceError
from videoloader.indexing.bitstream.disposable import is_disposable
from videoloader.indexing.index import DISPOSABLE_UNKNOWN, VideoIndex
from videoloader.indexing.libav import open_video
from videoloader.indexing.mpegts import read_transport_packets
from videoloader.indexing.sources import ByteSource
from videoloader.planning import Run

# Audio between two packets is read along when it is shorter than this: a read costs more than its bytes.
_READ_THROUGH = 64 << 10
_LARGEST_READ = 16 << 20


class PacketBytes(NamedTuple):
    """One packet: its number in the index, its payload, and whether its frame is wanted."""

    number: int
    data: bytes | memoryview
    wanted: bool


def read_packets(source: ByteSource, index: VideoIndex, run: Run) -> Iterator[PacketBytes]:
    """The run's packets in decode order, without those that nothing wanted depends on.

    Args:
        source: of the video.
        index: of the same video.
        run: from a plan made with this index.

    Raises:
        SourceError: the source has become shorter than its index says.
    """
    wanted = np.isin(run.packets, run.wanted, assume_unique=True)
    packets: Iterator[tuple[int, bytes | memoryview]] = (
        _read_ranges(source, index, run)
        if index.byte_ranges
        else read_transport_packets(source, index, run.packets)
        if index.transport
        else _demux(source, run)
    )
    for (number, data), is_wanted in zip(packets, wanted.tolist(), strict=True):
        if (
            is_wanted
            or index.method == "decoded"  # a packet may carry a part of another's frame
            or index.packet_disposable[number] != DISPOSABLE_UNKNOWN
            or not is_disposable(index.stream.codec, index.stream.codec_configs[index.packet_config[number]], data)
        ):
            yield PacketBytes(number, data, is_wanted)


def _read_ranges(source: ByteSource, index: VideoIndex, run: Run) -> Iterator[tuple[int, bytes | memoryview]]:
    offset = index.packet_offset[run.packets]
    size = index.packet_size[run.packets].astype(np.int64)
    gap = offset[1:] - offset[:-1] - size[:-1]
    breaks = (gap < 0) | (gap > _READ_THROUGH)
    # A long run is read in parts, so that decoding starts before all of it has come.
    part = np.cumsum(size) // _LARGEST_READ
    bounds = np.flatnonzero(breaks | (part[1:] != part[:-1])) + 1
    for first, last in zip([0, *bounds.tolist()], [*bounds.tolist(), len(offset)], strict=True):
        begin, end = int(offset[first]), int(offset[last - 1] + size[last - 1])
        data = memoryview(source.read(begin, end - begin))
        if len(data) < end - begin:
            raise SourceError(
                f"is shorter than its index says: of the bytes {begin} to {end} only {len(data)} are there", source.name
            )
        for number, at, length in zip(
            run.packets[first:last].tolist(), offset[first:last].tolist(), size[first:last].tolist(), strict=True
        ):
            yield number, data[at - begin : at - begin + length]


def _demux(source: ByteSource, run: Run) -> Iterator[tuple[int, bytes | memoryview]]:
    """Packets that are no plain byte ranges: from libavformat, which must walk there from the start of the file."""
    needed = run.packets.tolist()
    position = 0
    with open_video(source) as (container, stream):
        for number, packet in enumerate(packet for packet in container.demux(stream) if packet.size):
            if number == needed[position]:
                yield number, bytes(packet)
                position += 1
                if position == len(needed):
                    return
    raise SourceError(f"has only {number + 1} packets where its index says more", source.name)
