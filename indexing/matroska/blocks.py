"""Walk over the headers of all blocks in the clusters of Matroska (RFC 9559, 5.1.3) to find a track's packets."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.matroska.dense_blocks import (
    FRAME_HEAD,
    KEYFRAME,
    LACING,
    SIMPLE_BLOCK,
    DenseBlocks,
    track_kinds,
)
from videoloader.indexing.matroska.ebml import (
    CRC32,
    LONGEST_HEADER,
    VINT_LENGTH,
    VINT_MASK,
    VOID,
    MalformedError,
    read_header,
    read_uint,
    read_vint,
)
from videoloader.indexing.matroska.headers import CLUSTER, IN_SEGMENT, TOP_LEVEL, Headers, Track
from videoloader.indexing.sources.base import ByteSource

_TIMESTAMP, _BLOCK_GROUP, _BLOCK, _REFERENCE = 0xE7, 0xA0, 0xA1, 0xFB
# Position, PrevSize and SilentTracks.
_OTHERS_IN_CLUSTER = {VOID, CRC32, 0xA7, 0xAB, 0x5854}
# BlockDuration, BlockVirtual, BlockAdditions, ReferencePriority, ReferenceVirtual, CodecState, DiscardPadding, Slices.
_OTHERS_IN_GROUP = {VOID, CRC32, 0x9B, 0xA2, 0x75A1, 0xFA, 0xFD, 0xA4, 0x75A2, 0x8E}
# The header of an element, the header of the block in it, and the first bytes of its frame.
_ENOUGH = LONGEST_HEADER + 11 + FRAME_HEAD
_TWO_WORDS = struct.Struct(">qq")
_SHORTEST_READ, _LONGEST_READ = 256, 256 << 10
# If a header is this close behind the last read, in bytes or by its share of that read, it is worth reading up to it,
# since a read costs more than its bytes.
_NEAR, _NEAR_SHARE = 2048, 16
# From this many bytes on, reading all headers at once is cheaper than one by one, if blocks are at most this long; in
# twice as many bytes they may be twice as long, up to the maximum.
_DENSE_READ, _DENSE_BLOCK, _LONGEST_DENSE_BLOCK = 16 << 10, 256, 1024
_LARGEST_BLOCK = 1 << 28
_LATEST = 1 << 62
# Blocks of other tracks that are examined to find the beginning of one.
_MOST_BLOCKS = 500


class Packets(NamedTuple):
    """The frames of one track in file order, as columns of equal length.

    ``pts`` is in units of the file's time scale. ``head`` and ``more`` are the first 16 bytes of a frame; after a
    shorter frame they include what follows.
    """

    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    pts: npt.NDArray[np.int64]
    key: npt.NDArray[np.bool_]
    head: npt.NDArray[np.int64]
    more: npt.NDArray[np.int64]


class Walk(NamedTuple):
    """The findings of one walk through a file.

    Attributes:
        packets: packets of the wanted track.
        elements: ids of the top-level elements.
        first_times: first times of other tracks by number, for tracks that begin before the walk stops waiting for
            them.
    """

    packets: Packets
    elements: set[int]
    first_times: dict[int, int]


def read_packets(source: ByteSource, headers: Headers, track: Track, others: Set[int] = frozenset()) -> Walk:
    """Find the packets of a track, reading only as much of their payloads as lies near the headers.

    Args:
        source: the file.
        headers: headers of the file, up to its first cluster.
        track: track of these headers to read.
        others: numbers of tracks whose first times are also wanted.

    Raises:
        MalformedError: elements do not fit into each other or the file, or a frame has no timestamp.
    """
    window, collected, found = _Window(source), _Collected(headers, track, others), set()
    end = source.size if headers.stop is None else min(headers.stop, source.size)
    position = headers.clusters
    while (position := collected.add_dense_clusters(window, position, end)) < end:
        at = window.seek(position)
        identifier, body, element_stop = read_header(window.data, at, window.base)
        found.add(identifier)
        if identifier == CLUSTER and (element_stop is None or element_stop <= end or end == source.size):
            position = _read_cluster(window, collected, body, element_stop, end)
        elif identifier not in IN_SEGMENT or element_stop is None or element_stop > end:
            raise MalformedError(f"element {identifier:X} at byte {position} is no part of a segment, or cut off")
        else:
            position = element_stop
    return Walk(collected.packets(), found, collected.first_times)


def _read_cluster(window: _Window, collected: _Collected, position: int, stop: int | None, end: int) -> int:
    """Collect the blocks of a cluster, and return the position after it. An unknown size ends at another element."""
    collected.cluster_time = None
    limit = end if stop is None else min(stop, end)
    while position < limit:
        data, at = window.data, position - window.base
        if at + _ENOUGH > len(data):
            at = window.seek(position)
            data = window.data
        length = VINT_LENGTH[data[at + 1]]
        if data[at] == SIMPLE_BLOCK and length <= 8:
            # Nearly all of a file consists of these, so they are read as fast as possible.
            at += 1 + length
            start, body = position, position + 1 + length
            position = body + (int.from_bytes(data[at - length : at], "big") & VINT_MASK[length])
            if (
                len(data) >= _DENSE_READ
                and (after := collected.add_dense_blocks(window, start, position, limit)) > start
            ):
                position = after
                continue
            if position > limit:
                raise MalformedError(f"the block at byte {body} is cut off")
            collected.add_block(data, at, body, position, None)
            continue
        identifier, body, element_stop = read_header(data, at, window.base)
        if stop is None and identifier in TOP_LEVEL:
            return position
        if element_stop is None or element_stop > limit:
            raise MalformedError(f"element {identifier:X} at byte {position} is cut off")
        if identifier == _TIMESTAMP:
            collected.cluster_time = window.read_uint(body, element_stop)
        elif identifier == _BLOCK_GROUP:
            _read_group(window, collected, body, element_stop)
        elif identifier not in _OTHERS_IN_CLUSTER:
            raise MalformedError(f"element {identifier:X} at byte {position} is no part of a cluster")
        position = element_stop
    return position


def _read_group(window: _Window, collected: _Collected, position: int, stop: int) -> None:
    head, start, block_stop, key = b"", 0, 0, True
    while position < stop:
        at = window.seek(position)
        identifier, body, element_stop = read_header(window.data, at, window.base)
        if element_stop is None or element_stop > stop:
            raise MalformedError(f"element {identifier:X} at byte {position} is cut off")
        if identifier == _BLOCK and not head:
            # What to do with its frame depends on the elements around it.
            head, start, block_stop = window.data[at : at + _ENOUGH], body, element_stop
        elif identifier == _REFERENCE:
            key = False
        elif identifier not in _OTHERS_IN_GROUP:
            raise MalformedError(f"element {identifier:X} at byte {position} is no part of a block group")
        position = element_stop
    if head:
        collected.add_block(head, read_header(head, 0)[1], start, block_stop, key)


class _Window:
    """The bytes around the position of a walk, read in long pieces where headers lie close together.

    ``data`` begins at byte ``base`` of the file.
    """

    def __init__(self, source: ByteSource) -> None:
        self.data, self.base = b"", 0
        self._source, self._read_size = source, _SHORTEST_READ

    def seek(self, position: int) -> int:
        """Return where the position is in ``data``, with at least ``_ENOUGH`` bytes after it, padded with zeros."""
        at = position - self.base
        if at + _ENOUGH > len(self.data):
            near = at - len(self.data) < max(_NEAR, len(self.data) // _NEAR_SHARE)
            self._read_size = min(2 * self._read_size, _LONGEST_READ) if near else self._read_size // 2
            self._read_size = max(self._read_size, _SHORTEST_READ)
            self.data, self.base, at = self._source.read(position, self._read_size), position, 0
            if len(self.data) < _ENOUGH:
                self.data += bytes(_ENOUGH)
        return at

    def read_uint(self, start: int, stop: int) -> int:
        """Return an unsigned integer whose element's header is in the window."""
        value = read_uint(self.data[start - self.base : stop - self.base])
        if value > _LATEST:
            raise MalformedError(f"the time {value} at byte {start}")
        return value


class _Collected:
    """The packets found so far, and the timestamp of the cluster around the next one."""

    def __init__(self, headers: Headers, track: Track, others: Set[int]) -> None:
        self.cluster_time: int | None = None
        self.first_times: dict[int, int] = {}
        # After this many more blocks, tracks that have not begun are no longer waited for.
        self._unseen, self._patience = set(others), _MOST_BLOCKS
        self._wanted, self._tracks = track.number, {each.number for each in headers.tracks}
        self._rows = array("q")
        self._kinds = track_kinds(self._wanted, self._tracks)
        # The plain blocks of the window's bytes, and columns of those before; files without such blocks have none.
        self._dense: DenseBlocks | None = None
        self._dense_columns: list[npt.NDArray[np.int64]] = []

    def add_dense_blocks(self, window: _Window, start: int, stop: int, limit: int) -> int:
        """Take the plain blocks that follow each other in the window from ``start`` on; return where the last ends."""
        if self.cluster_time is None or self._unseen:
            return start
        if self._dense is None or self._dense.data is not window.data:
            if stop - start > min(_DENSE_BLOCK * (len(window.data) // _DENSE_READ), _LONGEST_DENSE_BLOCK):
                return start
            if self._dense is not None:
                self._dense_columns.append(self._dense.columns())
            self._dense = DenseBlocks(window.data, window.base, start - window.base, self._kinds)
        return window.base + self._dense.take(start - window.base, limit - window.base, self.cluster_time)

    def add_dense_clusters(self, window: _Window, start: int, limit: int) -> int:
        """Take the clusters of plain blocks that follow each other in the window; return where the last one ends."""
        if self._dense is None or self._dense.data is not window.data or self._unseen:
            return start
        return window.base + self._dense.take_clusters(start - window.base, limit - window.base)

    def add_block(self, data: bytes, at: int, start: int, stop: int, key: bool | None) -> None:
        """Take the frame of a block if it belongs to the wanted track.

        Args:
            data: buffer with its first bytes.
            at: position of the block in ``data``.
            start, stop: range of the block in the file.
            key: whether its frame is a keyframe; None for simple blocks, which have a flag.
        """
        number, after = (data[at] & 0x7F, at + 1) if data[at] & 0x80 else read_vint(data, at)
        if number != self._wanted:
            if number not in self._tracks and stop > start:
                raise MalformedError(f"the block at byte {start} is of track {number}, which is not there")
            if (self._unseen or not self._rows) and self.cluster_time is not None:
                self._see(number, int.from_bytes(data[after : after + 2], "big", signed=True))
            return
        frame = start + after - at + 3
        if frame >= stop:
            return  # the block has no frame
        time = data[after] << 8 | data[after + 1]
        flags = data[after + 2]
        if self.cluster_time is None:
            raise MalformedError(f"the cluster of the block at byte {start} has no timestamp")
        pts = self.cluster_time + (time if time < 0x8000 else time - 0x10000)
        if stop - start > _LARGEST_BLOCK or pts < 0:
            raise MalformedError(f"the block at byte {start} has {stop - start} bytes and the timestamp {pts}")
        if key is None:
            key = bool(flags & KEYFRAME)
        if flags & LACING:  # several frames in a block, as only sound has them
            raise MalformedError(f"the block at byte {start} has a lace")
        head, more = _TWO_WORDS.unpack_from(data, after + 3)
        self._rows.extend((frame, stop - frame, pts, key, head, more))

    def _see(self, number: int, time: int) -> None:
        """Note a block of another track."""
        self.first_times.setdefault(number, (self.cluster_time or 0) + time)
        self._unseen.discard(number)
        self._patience -= 1
        if not self._patience:
            self._unseen.clear()

    def packets(self) -> Packets:
        columns = np.frombuffer(self._rows, np.int64).reshape(-1, len(Packets._fields)).T.copy()
        if self._dense is not None:
            columns = np.concatenate([columns, *self._dense_columns, self._dense.columns()], axis=1)
            columns = columns[:, columns[0].argsort(kind="stable")]
        offset, size, pts, key, head, more = columns
        return Packets(offset, size, pts, key.astype(np.bool_), head, more)
