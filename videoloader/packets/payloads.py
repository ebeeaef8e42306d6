"""Read the payloads of a run's packets in few reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import av
import numpy as np
import numpy.typing as npt

from videoloader.errors import SourceError, counted
from videoloader.indexing.demuxer import demuxed
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.mpegts.extract import read_transport_packets
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.video_stream import open_video
from videoloader.packets.decode_plan import Run

_LARGEST_READ = 16 << 20

Payloads = Iterable[bytes | memoryview]


@dataclass(frozen=True, eq=False, slots=True)
class _Piece:
    """Payloads of packets that were read together. They are made as they are iterated over, each time anew.

    A list of them would be an object for each packet: see docs/architecture/nvdec.md.
    """

    data: memoryview
    starts: list[int]
    stops: list[int]

    def __iter__(self) -> Iterator[memoryview]:
        return map(self.data.__getitem__, map(slice, self.starts, self.stops))


def read_payloads(source: ByteSource, index: VideoIndex, run: Run) -> Iterator[Payloads]:
    """Yield the payloads of a run's packets, in pieces as they are read."""
    if index.byte_ranges:
        return _read_ranges(source, index, run)
    if index.transport:
        return iter([read_transport_packets(source, index, run.packets)])
    return iter([_demux(source, index, run)])


def held(pieces: Iterable[Payloads]) -> list[Payloads]:
    """Read all pieces, and return them in a form that can be iterated over several times."""
    return [each if isinstance(each, _Piece) else [*each] for each in pieces]


def check_files(source: FolderSource, index: VideoIndex, run: Run) -> None:
    """Raise SourceError unless the files are still those that the packets were made from."""
    if len(source.files) != len(index.packet_size):
        raise SourceError(
            f"has changed: it holds {len(source.files)} image files, but its index says {len(index.packet_size)}",
            source.name,
        )
    for number in run.packets.tolist():
        begin, end = source.offsets[number : number + 2]
        told, size = int(index.packet_offset[number]), int(index.packet_size[number])
        if (begin, end) != (told, told + size):
            raise SourceError(
                f"has changed: its files up to {source.files[number]} have {end} bytes, and that one {end - begin}, "
                f"but its index says {told + size} and {size}",
                source.name,
            )


def ranges_to_read(read_through: int, index: VideoIndex, run: Run) -> list[tuple[int, int]]:
    """Return the (offset, size) of everything that ``read_packets`` asks a source for, if packets are plain byte
    ranges.

    Args:
        read_through: the source's attribute of that name.
        index: index of the video.
        run: the packets.
    """
    pieces = _pieces(read_through, index, run)
    return list(zip(pieces.begin.tolist(), pieces.length.tolist(), strict=True))


class _Pieces(NamedTuple):
    """The pieces of the source that are read for a run, each with some packets, and how they are grouped into reads.

    Attributes:
        begin, length: offset and size of each piece in bytes.
        first, last: the packets of each piece, as positions in the run; the last one is exclusive.
        together: bounds of the groups of pieces that are read at once.
    """

    begin: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    together: list[int]


def _pieces(read_through: int, index: VideoIndex, run: Run) -> _Pieces:
    offset = index.packet_offset[run.packets]
    size = index.packet_size[run.packets].astype(np.int64)
    gap = offset[1:] - offset[:-1] - size[:-1]
    # Audio between two packets is read too, if that costs less than another read.
    breaks = (gap < 0) | (gap > read_through)
    # A long run is read in parts, so that decoding starts before all of it has arrived.
    part = np.cumsum(size + np.append(0, np.where(breaks, 0, gap))) // _LARGEST_READ
    first = np.append(0, np.flatnonzero(breaks | (part[1:] != part[:-1])) + 1)
    last = np.append(first[1:], len(offset))
    begin = offset[first]
    length = offset[last - 1] + size[last - 1] - begin
    together = np.append(0, np.flatnonzero(np.diff(part[first])) + 1)
    return _Pieces(begin, length, first, last, [*together.tolist(), len(first)])


def _read_ranges(source: ByteSource, index: VideoIndex, run: Run) -> Iterator[Payloads]:
    offset = index.packet_offset[run.packets]
    size = index.packet_size[run.packets].astype(np.int64)
    if len(offset) == 1:
        ((begin, length),) = zip(offset.tolist(), size.tolist(), strict=True)
        (content,) = source.read_ranges([begin], [length])
        _check_length(source, content, begin, length)
        yield [memoryview(content)]
        return
    begins, lengths, first, last, together = _pieces(source.read_through, index, run)
    for start, stop in pairwise(together):
        ranges = source.read_ranges(begins[start:stop].tolist(), lengths[start:stop].tolist())
        for number, content in enumerate(ranges, start):
            _check_length(source, content, int(begins[number]), int(lengths[number]))
            packets = slice(first[number], last[number])
            starts = offset[packets] - begins[number]
            stops = starts + size[packets]
            yield _Piece(memoryview(content), starts.tolist(), stops.tolist())


def _check_length(source: ByteSource, content: bytes, begin: int, length: int) -> None:
    if len(content) < length:
        raise SourceError(
            f"is shorter than its index says: of the bytes {begin} to {begin + length} only {len(content)} are there",
            source.name,
        )


def _demux(source: ByteSource, index: VideoIndex, run: Run) -> Iterator[bytes]:
    """Yield payloads that are not plain byte ranges. libavformat must walk to them from the start of the file."""
    needed = run.packets.tolist()
    position = count = 0
    with open_video(source) as (container, _):
        number = index.stream.stream_number
        stream = container.streams[number] if number < len(container.streams) else None
        if not isinstance(stream, av.VideoStream):
            raise SourceError(f"has no video in stream {number}, which its index names", source.name)
        for count, packet in enumerate((packet for packet in demuxed(container, stream) if packet.size), 1):
            if count == needed[position] + 1:
                yield bytes(packet)
                position += 1
                if position == len(needed):
                    return
    raise SourceError(f"has only {counted(count, 'packet')}, fewer than its index says", source.name)
