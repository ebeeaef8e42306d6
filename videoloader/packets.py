"""From a run of packet numbers to the packets' bytes: few reads, and only what a decoder needs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, islice
from typing import NamedTuple

import numpy as np

from videoloader.errors import SourceError
from videoloader.indexing.bitstream.disposable import is_disposable
from videoloader.indexing.bitstream.references import ReferenceClosure, names_references
from videoloader.indexing.index import DISPOSABLE_UNKNOWN, VideoIndex
from videoloader.indexing.libav import open_video
from videoloader.indexing.sources import ByteSource
from videoloader.planning import Run

# Audio between two packets is read along when it is shorter than this: a read costs more than its bytes.
_READ_THROUGH = 64 << 10
_LARGEST_READ = 16 << 20
# Bytes of packets held in memory to see which of them are needed.
_LONGEST_LOOK_AHEAD = 64 << 20


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
    payloads = _read_ranges(source, index, run) if index.byte_ranges else _demux(source, run)
    packets = (
        PacketBytes(number, data, is_wanted)
        for (number, data), is_wanted in zip(payloads, wanted.tolist(), strict=True)
    )
    if index.method == "decoded" or index.stream.encrypted or wanted.all():
        # A packet of an index that was decoded may carry a part of another's frame.
        return packets
    if names_references(index.stream.codec):
        return _referenced(index, run, packets)
    return (packet for packet in packets if packet.wanted or not _is_disposable(index, packet))


def _is_disposable(index: VideoIndex, packet: PacketBytes) -> bool:
    return index.packet_disposable[packet.number] == DISPOSABLE_UNKNOWN and is_disposable(
        index.stream.codec, index.stream.codec_configs[index.packet_config[packet.number]], packet.data
    )


def _referenced(index: VideoIndex, run: Run, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """The packets that the wanted ones refer to, directly or not; read ahead, to know which."""
    closure = ReferenceClosure(index.stream.codec, index.stream.codec_configs[index.packet_config[run.packets[0]]])
    bounds = np.flatnonzero(np.diff(np.cumsum(index.packet_size[run.packets], dtype=np.int64) // _LONGEST_LOOK_AHEAD))
    for size in np.diff(bounds + 1, prepend=0, append=len(run.packets)).tolist():
        ahead = list(islice(packets, size))
        more_follow = ahead[-1].number != run.packets[-1]
        needed = closure.needed(
            [packet.data for packet in ahead], [packet.wanted for packet in ahead], more_follow=more_follow
        )
        yield from compress(ahead, needed)


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
