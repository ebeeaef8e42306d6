"""Index AVI files from their own tables, and order their frames by the codec's headers, which take few reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from videoloader.indexing.avi.chunks import Chunks, find_chunks, is_packet
from videoloader.indexing.avi.header import read_header
from videoloader.indexing.avi.streams import codec_of, describe_stream, is_shown_when_decoded
from videoloader.indexing.bitstream.h264_order import h264_order
from videoloader.indexing.bitstream.intra_pictures import HEAD_READERS
from videoloader.indexing.bitstream.mpeg4_order import mpeg4_order
from videoloader.indexing.bitstream.picture_order import PictureOrder
from videoloader.indexing.bitstream.random_access import is_intra_only, is_random_access
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.packet_times import packet_times, reorder_depth
from videoloader.indexing.sources.base import NEAR, ByteSource
from videoloader.indexing.stream_info import StreamInfo
from videoloader.runtime.cached_property import cached_property

# libavformat counts the last frame's duration differently if time units are shorter.
_SHORTEST_UNIT = Fraction(1, 1000)
_LARGEST_RATIO = (1 << 31) - 1
HEAD_SIZE = 72
_CHUNK_HEADER = 8
# Gaps between two heads are read too if they are shorter than this, which costs about as much as one more read.
_READ_THROUGH = 6 << 10
_LARGEST_READ = 4 << 20


def index_avi(source: ByteSource) -> VideoIndex | None:
    """Index the file's video stream; None if only libavformat can read it.

    AVI has no presentation times. The order of frames comes from the codec's own headers. Their times are those that
    libavformat makes up: the times of packets in rising order.

    Left to libavformat: several video streams, DV type 1, codecs that are unknown here, indexes that contradict the
    chunks, and streams whose headers do not determine what a decoder outputs.
    """
    header = read_header(source)
    if header is None:
        return None
    videos = [number for number, stream in enumerate(header.streams) if stream.kind == b"vids"]
    picture = header.streams[videos[0]].picture_header() if len(videos) == 1 else None
    if picture is None or not (codec := codec_of(picture.compression, picture.bits)):
        return None
    number, stream = videos[0], header.streams[videos[0]]
    time_base = Fraction(stream.scale, stream.rate)
    if max(time_base.numerator, time_base.denominator) > _LARGEST_RATIO:
        return None
    chunks = find_chunks(source, header, number)
    if chunks is None or not len(chunks.size) or chunks.size.max() >= 1 << 31:
        return None
    heads = ChunkHeads(source, chunks, number)
    info = describe_stream(source, codec, stream, picture, heads.start(0, int(chunks.size[0])))
    if info is None:
        return None
    order = _find_order(info, chunks, heads)
    if order is None or (info.time_base <= _SHORTEST_UNIT and order.late.any()):
        return None
    return _assemble(source, chunks, order, replace(info, stream_number=number))


def _find_order(info: StreamInfo, chunks: Chunks, heads: ChunkHeads) -> PictureOrder | None:
    config = info.codec_configs[0]
    if info.codec == "mpeg4":
        return mpeg4_order(config, info.codec_tag, heads)
    if info.codec == "h264":
        return h264_order(config, heads)
    key = np.ones_like(chunks.key) if is_intra_only(info.codec) else chunks.key
    try:
        if heads.are_near:
            heads.check_all()
        if info.codec in HEAD_READERS:
            key = np.array([is_random_access(info.codec, config, head) for head in heads], np.bool_)
            if not all(is_shown_when_decoded(info.codec, head) for head in heads):
                return None
    except ValueError:
        return None
    return PictureOrder(np.arange(len(key)), key, np.zeros_like(key)) if key[0] else None


def _assemble(source: ByteSource, chunks: Chunks, order: PictureOrder, info: StreamInfo) -> VideoIndex:
    count = len(chunks.size)
    # libavformat gives a frame that is shown late the time of the next such packet.
    held = order.late.nonzero()[0]
    shown = chunks.time.copy()
    shown[held[:-1]] = chunks.time[held[1:]]
    shown[held[-1:]] = chunks.time[-1] + 1
    frame_pts = np.sort(shown[order.frames])
    packet_pts = packet_times(order.frames, frame_pts, count)
    return VideoIndex(
        source=source.name,
        container="avi",
        # Frames whose bytes are in two packets are read like those of streams that only a decode could index.
        method="decoded" if order.packed else "tables",
        packet_offset=chunks.offset,
        packet_size=chunks.size.astype(np.int32),
        packet_pts=packet_pts,
        packet_key=order.keys,
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=order.frames.astype(np.int32),
        frame_pts=frame_pts,
        byte_ranges=True,
        keys_from="headers" if info.codec in HEAD_READERS else "container",
        stream=replace(info, reorder_depth=reorder_depth(packet_pts)),
    )


class ChunkHeads:
    """The first bytes of the packets of a stream (a PacketHeads).

    Reading them raises ValueError if a chunk does not belong to the stream, or has another size.

    Args:
        source: bytes of the file.
        chunks: chunks of the stream.
        number: number of the stream.
    """

    def __init__(self, source: ByteSource, chunks: Chunks, number: int) -> None:
        self.size = chunks.size
        self._source, self._offset, self._number = source, chunks.offset, number

    @property
    def are_near(self) -> bool:
        """Whether a read of each is cheap."""
        return self._source.read_through <= NEAR

    def check_all(self) -> None:
        """Raise ValueError unless all chunks are what the index says."""
        _ = self.rows

    def start(self, number: int, most: int) -> bytes:
        """Return the first bytes of one packet."""
        return self._source.read(int(self._offset[number]), min(int(self.size[number]), most))

    def wholes(self) -> Iterator[bytes]:
        """Yield all bytes of each packet."""
        for first, last in self._batches():
            base = int(self._offset[first]) - _CHUNK_HEADER
            start = self._offset[first:last] - base
            stop = start + self.size[first:last]
            block = self._source.read(base, int(stop[-1])).ljust(int(stop[-1]), b"\0")
            self._check(_items(block, start - _CHUNK_HEADER, _CHUNK_HEADER), self.size[first:last])
            yield from map(block.__getitem__, map(slice, start.tolist(), stop.tolist()))

    def _check(self, headers: npt.NDArray[np.void], size: npt.NDArray[np.int64]) -> None:
        """Raise ValueError unless chunks with these headers belong to the stream and have these sizes."""
        names, stated = headers.view("<u4").reshape(-1, 2).T
        kinds = {int(names[0]), *names[names != names[0]].tolist()}
        if (stated != size).any() or not all(is_packet(name.to_bytes(4, "little"), self._number) for name in kinds):
            raise ValueError("a chunk is not what the index says")

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Return ranges of packets that begin close to each other."""
        part = self._offset // _LARGEST_READ
        return pairwise([0, *(np.flatnonzero(part[1:] != part[:-1]) + 1).tolist(), len(part)])

    def __iter__(self) -> Iterator[bytes]:
        """Yield the first HEAD_SIZE bytes of each packet, or all of a shorter one."""
        data = self.rows.tobytes()
        for start, size in zip(range(0, len(data), HEAD_SIZE), self.size.tolist(), strict=True):
            yield data[start : start + min(size, HEAD_SIZE)]

    @cached_property
    def rows(self) -> npt.NDArray[np.uint8]:
        """uint8[P, HEAD_SIZE]; after the end of a shorter packet comes what follows in the file, or zeros."""
        rows = np.empty((len(self.size), HEAD_SIZE), np.uint8)
        for first, last in self._batches():
            self._read(self._offset[first:last], self.size[first:last], rows[first:last])
        return rows

    def _read(self, offset: npt.NDArray[np.int64], size: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
        """Put the first bytes of packets at these offsets, and of these sizes, into the rows."""
        begin, end = offset - _CHUNK_HEADER, offset + HEAD_SIZE
        lasts = [*np.flatnonzero(begin[1:] - end[:-1] > _READ_THROUGH).tolist(), len(begin) - 1]
        firsts = [0, *(last + 1 for last in lasts[:-1])]
        bases, lengths = begin[firsts], end[lasts] - begin[firsts]
        read = self._source.read
        pieces = [
            read(base, length).ljust(length, b"\0")
            for base, length in zip(bases.tolist(), lengths.tolist(), strict=True)
        ]
        data = b"".join(pieces)
        shift = np.cumsum(lengths) - lengths - bases
        position = begin + shift.repeat(np.diff([*firsts, len(begin)]))
        self._check(_items(data, position, _CHUNK_HEADER), size)
        rows[:] = _items(data, position + _CHUNK_HEADER, HEAD_SIZE).view(np.uint8).reshape(rows.shape)


def _items(data: bytes, position: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.void]:
    """Return this many bytes from each position: void[P]. numpy copies such items much faster than single bytes."""
    every: npt.NDArray[np.void] = np.ndarray(len(data) - width + 1, f"V{width}", data, strides=(1,))
    return every[position]
