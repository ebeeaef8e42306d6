"""The first bytes of all packets, in few reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from videoloader.indexing.avi.chunks import Chunks
from videoloader.indexing.sources import ByteSource

HEAD_SIZE = 64
# What lies between two heads is read along when it is shorter: about what one more read costs.
_READ_THROUGH = 6 << 10
_LARGEST_READ = 4 << 20


class ChunkHeads:
    """The first bytes of the packets of a stream.

    Iterating gives HEAD_SIZE bytes of each, or all of a shorter one, and raises ValueError where a chunk is not the
    stream's or not of its size.

    Args:
        source: of the file.
        chunks: of the stream.
        number: of the stream.
    """

    def __init__(self, source: ByteSource, chunks: Chunks, number: int) -> None:
        self.sizes: list[int] = chunks.size.tolist()
        self._source, self._chunks, self._name = source, chunks, b"%02d" % number

    def whole(self, number: int) -> bytes:
        """All bytes of one packet."""
        return self._source.read(int(self._chunks.offset[number]), self.sizes[number])

    def __iter__(self) -> Iterator[bytes]:
        begin = self._chunks.offset - 8
        end = begin + 8 + np.minimum(self._chunks.size, HEAD_SIZE)
        part = (begin - begin[0]) // _LARGEST_READ
        breaks = np.flatnonzero((begin[1:] - end[:-1] > _READ_THROUGH) | (part[1:] != part[:-1])) + 1
        bounds = [0, *breaks.tolist(), len(begin)]
        begins, ends = begin.tolist(), end.tolist()
        for first, last in pairwise(bounds):
            base = begins[first]
            block = self._source.read(base, ends[last - 1] - base)
            for number in range(first, last):
                at = begins[number] - base
                size = int.from_bytes(block[at + 4 : at + 8], "little")
                if size != self.sizes[number] or block[at : at + 2] != self._name:
                    raise ValueError("a chunk is not what the index says")
                yield block[at + 8 : ends[number] - base]
