"""Read the first bytes of all packets in few reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from videoloader.indexing.avi.chunks import Chunks, is_packet
from videoloader.indexing.sources import ByteSource

HEAD_SIZE = 72
_CHUNK_HEADER = 8
# Gaps between two heads are read too if they are shorter than this, which costs about as much as one more read.
_READ_THROUGH = 6 << 10
_LARGEST_READ = 4 << 20


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

    def start(self, number: int, most: int) -> bytes:
        """Return the first bytes of one packet."""
        return self._source.read(int(self._offset[number]), min(int(self.size[number]), most))

    def whole(self, number: int) -> bytes:
        """Return all bytes of one packet."""
        return self.start(number, int(self.size[number]))

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
